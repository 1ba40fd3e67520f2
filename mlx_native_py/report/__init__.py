"""Tables and pages about the package, generated from its code."""
