"""Detection of uninitialised variables, by shadow values in the compiled kernel."""
