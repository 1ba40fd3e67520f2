"""What there is and what was measured, as tables and pages."""
