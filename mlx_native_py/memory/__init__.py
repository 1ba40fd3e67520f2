"""Device memory: allocations, typed views of them, a pool, residency."""
