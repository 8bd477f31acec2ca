"""The numbers from which on rising memory counts as a leak, each with its reason."""

from __future__ import annotations

from gputui.units import MIB

LOOKS = 6
"""How many looks a trend needs: two each at its beginning, in its middle and at its end."""
GROWTH_TENSORS = 3
"""By how many tensors a kind or a container must grow: a prefetch queue or a double buffer adds one or two."""
GROWTH_BYTES = 16 * MIB
"""Less growth than this in a minute is metrics and counters."""
FEWEST_LOOKS = 3
"""How many looks a container needs if the counters show that memory grows: it then got longer twice."""
SHARE_OF_GROWTH = 0.5
"""Of the growth that the counters show in the same time: what a container must have got of it."""
STILL_RISES_SHARE = 0.2
"""Of a variable's growth, what the last third of the looks must show: steady growth shows half, and a graph that has
been there since training began shows nothing."""
LOOKS_OF_VARIABLES = 9
"""A single variable is a leak only if its memory has risen in this many looks: tensors of a step go up and down."""
NODE_BYTES = 800
"""Host memory of an operation in an autograd graph and of what it saved, in bytes: 700 to 1,200 were measured."""

WINDOWS = 9
"""Readings are cut into this many windows of equal length: memory never freed lifts the lowest reading of each."""
READINGS_PER_WINDOW = 3
SHORTEST_SPAN_S = 20.0
LONGEST_SPAN_S = 300.0
SWING_SHARE = 0.05
"""Of the up and down within a window: less growth than this may be chance."""
JUMP = 4
"""A rise from an early window to the next of this many times the median is start-up: what came before is left out."""
