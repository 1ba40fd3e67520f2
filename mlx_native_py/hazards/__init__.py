"""Byte ranges that dispatches touch, and the barriers they need."""
