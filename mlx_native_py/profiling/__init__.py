"""Times of command buffers and dispatches, and GPU traces."""
