"""An attached process: what its probe sends, what is known of its memory at a moment, and over time.

`target` has the probe's messages, `allocator` PyTorch's counters and blocks, `tensors` storages and the categories of
memory, `owners` the names of a storage's owner and of what keeps it, `trace` recorded events, `serving` an inference
server. `moment` joins them for the screens, `analysis` has what `explain` concludes from them, such as findings,
`failure` an out-of-memory error. `timeline`, `counters` and `levels` keep them over time.
"""
