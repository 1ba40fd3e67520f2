"""Hazard tracking: byte ranges that dispatches access, and the barriers between them."""
