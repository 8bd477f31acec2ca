"""How much memory is where, to the byte.

In: the counters and the map of a device. Out: figures that add up. `bridge`: from NVML's figure for the process down to
what it requested; `parts`: all of a device; `drivers`: NVML's facts for PyTorch's devices; `need`: what each step needs
at its top; `release`: what `empty_cache()` would return, and which blocks keep the rest; `collection`, `unreachable`:
what `gc.collect()` would free; `room`: the largest allocation that fits; `rounding`: from a request to a block;
`trace_levels`: sums over a trace; `map_faults`: whether a map or trace is possible at all.
"""
