"""LLVM's intermediate representation: its values, its text, its flow, and rewrites that leave only scalars."""
