"""Op families: one module per kernel file of the same name."""
