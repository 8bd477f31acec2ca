"""The numbers from which on a rule makes a finding, each with its reason; a share is between 0 and 1.

The numbers of leaks are in `advice/leaks/thresholds.py`.
"""

from __future__ import annotations

from gputui.units import GIB, MIB

CACHE_MATTERS_SHARE = 0.05
"""Of the device: less fragmented, rounded or pending memory is not missed before the device is full."""
MATTERS_SHARE = 0.02
"""Of the device: less live memory that could be freed is not worth a change of the program."""
MATTERS_OF_RESERVED_SHARE = 0.25
"""Of the reserved memory: a quarter of what a program uses is worth a word on a device of any size."""
COPY_MATTERS_SHARE = 0.1
"""The same for copies of a model's weights, seldom on purpose: beside Adam's states, a copy is a fifth at most."""
MATTERS_BYTES = 256 * MIB
"""Smaller parts of a small program are no finding, even if they are most of its memory."""

FULL_SHARE = 0.5
"""Of the device: if this much was never in use, a request failed because it was too large itself."""

IDLE_S = 4.0
"""A program that allocates and frees nothing for this long stands still: a notebook between two cells."""
HABIT_LOOKS = 6
"""What is there in this many looks of a program that allocates and frees is a habit of the program."""
SAME_LOOKS = 6
"""A variable with the same blocks in this many looks of a program that allocates and frees keeps them for good."""
FEWEST_ELEMENTS = 3
"""A list of one or two tensors is a double buffer or a pair of inputs."""
KEPT_SHARE = 0.05
"""Of the allocated memory: what a variable or a second model must keep to be a finding."""

STUCK_BYTES = 64 * MIB
"""In every program some MiB stay free in segments of small tensors."""
STUCK_SHARE = 0.05
"""Of the reserved memory: below that, other findings explain more."""

SCATTERED_SEGMENTS = 3
"""One or two large segments held by small blocks are chance; three are the program's way of allocating."""
SCATTERED_LIVE_SHARE = 0.25
"""A large segment counts as held by small blocks where at most a quarter of it is in use."""
SCATTERED_SHARE = 0.1
"""Of the reserved memory: with less stuck in such segments, expandable segments would gain little."""

RELEASABLE_BYTES = 2 * MIB
"""The size of the smallest segment: less cannot be released."""

WINDOW_S = 30.0
"""Rates are means over this time: long enough for several steps of a large model, and still the present."""
WINDOW_POINTS = 4
"""With fewer readings of the counters, a burst (the first step, a checkpoint) cannot be told from a habit."""
CHURN_PER_S = 2.0
"""Device allocations and frees: a steady program makes none; one empty_cache() a second gives back several segments."""
CHURN_LULL_SHARE = 0.25
"""Of the window: if no segment was freed for longer, the frees are a burst, not a habit."""

NEEDED_SHARE = 0.7
"""Of the peak of reserved memory: where tensors never took this much, the device was full of cache."""
RETRIES_PER_MINUTE = 2.0
"""Each retry frees the whole cache and synchronises the device; a few are the price of a full device."""

LOOKS_AT_MOST = 24
"""More looks are thinned to this number, evenly spread: each look of ten thousand blocks costs a millisecond."""

FORWARD_LOOKS = 3
"""How many looks during a forward pass must have found the gradients."""
FORWARD_BYTES = MIB
"""Saved for backward: less is a stray graph, not a forward pass."""
GRADIENT_SHARE = 0.05
"""Of the allocated memory: smaller gradients are not worth a change."""

UNUSED_GRAPH_SPAN_S = 5.0
"""How long there must be no gradient while activations are saved: longer than a step of most models."""
UNUSED_GRAPH_BYTES = 16 * MIB
"""Saved for a backward pass that never runs: less is not worth a finding."""

STATE_BYTES_PER_PARAMETER = 7.5
"""Two states in 32 bits are 8 bytes for each parameter; a few parameters may have none."""
STATE_SHARE = 0.15
"""Of the allocated memory: where activations are most of it, smaller states would not help."""

ROUNDING_SHARE = 0.1
"""Of the allocated memory: in ordinary programs, rounding to 512 bytes and unsplit remainders add less."""
PART_BYTES = 64 * MIB
"""Less rounding, pending blocks, private pools, gradients, optimizer states or kept tensors is no finding."""

OUTSIDE_BYTES = GIB
"""A CUDA context with the kernels of PyTorch, cuBLAS and cuDNN takes 0.3 to 0.8 GiB in every process."""
GAP_SHARE = 0.1
"""Of what NVML shows for the process: from about here people ask why PyTorch shows less."""
OTHERS_SHARE = 0.02
"""Of the device: a desktop or a monitor takes less."""
OF_VISITORS_SHARE = 0.5
"""Of what other processes hold: if half of it is CUDA contexts of ranks of other devices, `visitors` says so alone."""

NCCL_FREE_BYTES = GIB
"""NCCL takes some hundred MiB for each communicator; with less than this free, the next one may fail."""
NCCL_CACHE_BYTES = GIB
"""A smaller cache of PyTorch would not make room for a communicator."""

PINNED_ROUNDING_BYTES = GIB
PINNED_ROUNDING_SHARE = 0.1
"""Host memory is larger than a device's: less than this, or a tenth of what was asked for, is not missed."""

MISSING_IN_POOLS_SHARE = 0.9
"""Private pools must be at least this share of the missing memory: only they can be unmapped unnoticed by PyTorch."""

TIGHT_SHARE = 0.1
"""Of the device: where the largest request that fits is smaller, the next one may fail."""

IDLE_PERCENT = 50.0
"""A device that gets its data in time is busy for more of the time than this."""
BUSY_CPU_PERCENT = 85.0
"""A worker that never waits takes a whole core."""

SCARCE_BLOCKS_SHARE = 0.05
"""Of the blocks of a server's KV cache: if fewer are free, waiting requests wait for blocks."""
IDLE_BLOCKS_SHARE = 0.25
"""Of the same blocks: if more are free, waiting requests wait for something else."""
