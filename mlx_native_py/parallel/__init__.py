"""Models over several processes: layers, heads and vocabulary divided among ranks."""
