"""An attached process: what its probe sends, what is known of its memory at a moment, and over time.

`target` has the probe's messages, `allocator` PyTorch's counters and blocks, `tensors` storages and the categories of
memory, `owners` whose a storage is or what keeps it, `trace` recorded events. `moment` joins them for the screens,
`analysis` is what `explain` makes of them, findings included, `failure` an out-of-memory error; `timeline`, `counters`
and `levels` keep them over time.
"""
