"""State of the Metal objects, without selectors, and the execution of command buffers."""
