"""Tests of the core, on every device there is."""
