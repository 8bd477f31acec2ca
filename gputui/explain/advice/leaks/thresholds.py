"""From which numbers on memory that rises counts as a leak, each with its reason."""

from __future__ import annotations

from gputui.units import MIB

LOOKS = 6
"""A trend needs at least two looks each at its beginning, in its middle and at its end."""
GROWTH_TENSORS = 3
"""The least growth in tensors of a kind: a prefetch queue or a double buffer adds one or two."""
GROWTH_BYTES = 16 * MIB
"""Less growth than this in a minute is metrics and counters."""
FEWEST_LOOKS = 3
"""The same of a container where the counters tell that memory grows: it got longer twice."""
SHARE_OF_GROWTH = 0.5
"""What a container must keep, at least, of what the counters say came in the same time."""
STILL_RISES_SHARE = 0.2
"""Of the growth of a variable, in the last third of the looks: half would be steady, a graph that is there since
training began adds nothing."""
LOOKS_OF_VARIABLES = 9
"""A single variable is a leak only after its memory has risen in so many looks: a step's own tensors go up and down."""
NODE_BYTES = 800
"""Of host memory for each operation of an autograd graph, with the tensors it has saved: 700 to 1,200 were measured."""

WINDOWS = 9
"""The readings are cut into this many windows of equal length; what is never freed lifts the lowest of each."""
READINGS_PER_WINDOW = 3
SHORTEST_SPAN_S = 20.0
LONGEST_SPAN_S = 300.0
SWING_SHARE = 0.05
"""Growth counts if it is at least this share of the up and down within a window: less may be chance."""
JUMP = 4
"""An early window that rises over so many times the median is a start-up cost, and is left out of the rate."""
