"""Tests of the software Metal."""
