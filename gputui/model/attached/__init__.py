"""An attached process: what its probe sends, what is known of its memory at a moment, and over time.

`target` has the probe's messages, `allocator` PyTorch's counters and blocks, `tensors` storages with their owners and
the categories of memory, `trace` recorded events. `moment` joins them for the screens, `analysis` and `finding` are
what `explain` makes of them, `failure` an out-of-memory error; `timeline`, `counters` and `levels` keep them over time.
"""
