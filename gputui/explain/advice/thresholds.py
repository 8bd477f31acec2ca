"""From which number on a sentence is said, each with its reason. Shares are of 1."""

from __future__ import annotations

from gputui.units import GIB, MIB

STUCK_BYTES = 64 * MIB
"""The rests of segments that serve small tensors come to some MiB in every program."""
STUCK_SHARE = 0.05
"""Of the reserved memory: below, the rest of the screen explains more."""

SCATTERED_SEGMENTS = 3
"""One or two segments kept open are chance; from three on it is the program's way of allocating."""
SCATTERED_LIVE_SHARE = 0.25
"""A large segment is held by small blocks where at most a quarter of it lives."""
SCATTERED_SHARE = 0.1
"""Of the reserved memory, stuck in such segments: below, other segments would gain little."""

RELEASABLE_BYTES = 2 * MIB
"""The smallest segment: less cannot be released."""

WINDOW_S = 30.0
"""Rates are means over so much time: long enough for several steps of a large model, short enough to be the present."""
WINDOW_POINTS = 4
"""With fewer readings a burst (the first step, a checkpoint) cannot be told from a habit."""
CHURN_PER_S = 2.0
"""Device allocations and frees: a steady program makes none; one empty_cache() a second gives back several segments."""
CHURN_SHARE = 0.75
"""For so much of the time of the window there are frees: a habit, not a burst."""

RETRIES_PER_MINUTE = 2.0
"""Each retry frees the whole cache and synchronises the device; once in a while it is the price of a full device."""

LOOKS = 6
"""A trend needs looks at its beginning, in its middle and at its end, two of each at least."""
LOOKS_AT_MOST = 24
"""Of more looks so many are taken, evenly spread: each of ten thousand blocks costs a millisecond."""

GROWTH_TENSORS = 3
"""So many more of a kind: a prefetch queue or a double buffer adds one or two."""
GROWTH_BYTES = 16 * MIB
"""Less growth than this in a minute is metrics and counters."""

FORWARD_LOOKS = 3
"""So many looks in which a forward pass was under way."""
FORWARD_BYTES = MIB
"""Saved for backward: less is a stray graph, not a forward pass."""
GRADIENT_SHARE = 0.05
"""Of the allocated memory: smaller gradients are not worth a change."""

UNUSED_GRAPH_SPAN_S = 5.0
"""So long without a gradient, while activations are saved: longer than a step of most models."""
UNUSED_GRAPH_BYTES = 16 * MIB
"""Saved for a backward pass that does not come: less is not worth a sentence."""

STATE_BYTES_PER_PARAMETER = 7.5
"""Two states in 32 bits are 8 bytes for each parameter; a few parameters may have none."""
STATE_SHARE = 0.15
"""Of the allocated memory: where activations rule, smaller states would not help."""

ROUNDING_SHARE = 0.1
"""Of the allocated memory: blocks of 512 bytes and unsplit rests come to less in ordinary programs."""
PART_BYTES = 64 * MIB
"""Rounding, pending and private pools are said from here on."""

OUTSIDE_BYTES = GIB
"""A CUDA context with the kernels of PyTorch, cuBLAS and cuDNN takes 0.3 to 0.8 GiB in every process."""
GAP_SHARE = 0.1
"""Of what NVML shows: people ask from about here why the two numbers differ."""
OTHERS_SHARE = 0.02
"""Of the device: a desktop or a monitor takes less."""

TIGHT_SHARE = 0.1
"""Of the device: where the largest request that fits is smaller, the next one may fail."""

IDLE_PERCENT = 50.0
"""A device that is fed works more than half of the time."""
BUSY_CPU_PERCENT = 85.0
"""A worker that waits for nothing takes a whole core."""
