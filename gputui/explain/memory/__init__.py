"""How much memory is where, to the byte.

In: the counters and the map of a device. Out: figures that add up.
`bridge`: from the driver's figure down to what the program asked for; `parts`: a whole device; `need`: what each step
needs at its top; `release`: what `empty_cache()` would return, and the blocks that keep the rest stuck; `room`: the
largest allocation that fits; `rounding`: from a request to a block; `map_faults`: whether a map is possible at all.
"""
