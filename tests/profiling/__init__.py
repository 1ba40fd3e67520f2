"""Tests of profiles, traces and reports, on every device there is."""
