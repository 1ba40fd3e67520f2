"""Device memory: allocations, buffers and views, a buffer pool, residency, textures."""
