"""State of the Metal objects, without selectors, and execution of command buffers."""
