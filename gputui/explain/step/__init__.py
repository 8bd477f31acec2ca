"""A step in time: the allocator's trace and the map at its end, as who was alive at each event, and why."""
