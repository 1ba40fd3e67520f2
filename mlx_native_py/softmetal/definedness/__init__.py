"""Variables that are read before they have a value: found by shadows, which the compiled kernel carries along."""
