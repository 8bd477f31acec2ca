"""What would have been reserved under other settings: a model of the allocator, and a trace replayed through it."""
