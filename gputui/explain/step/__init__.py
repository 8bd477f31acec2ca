"""A step in time: the allocator's trace and the map at its end, as who was alive at each event, and why.

`timeline`: births and deaths; `periods`: where steps begin; `phases`: forward, backward, optimizer; `kinds`: what
blocks are for; `step` puts these together. `late`, `layers`, `summary` and `view` are what is said and shown of it.
"""
