"""LLVM IR: values, text, control flow, and rewrites that leave only scalars."""
