"""Tables and stubs generated from the package's code."""
