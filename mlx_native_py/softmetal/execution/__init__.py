"""What the Metal objects stand for: plain state without selectors, and how command buffers run."""
