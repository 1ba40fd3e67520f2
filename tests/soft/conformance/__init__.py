"""Tables of what MSL promises, and the batches that put them to the test."""
