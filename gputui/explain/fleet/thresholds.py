"""The numbers from which a rule about a fleet makes a finding, each with its reason or with who else uses it."""

from __future__ import annotations

from gputui.units import GIB

GONE_WITHIN_S = 3600
"""What was taken out of a fleet on purpose is not a finding for longer."""
BUSY_SHARE = 0.95
STUCK_FOR_S = 300
"""A training changes its allocator many times a second; an evaluation that replays a CUDA graph ends within minutes."""
IDLE_IN_JOB_FOR_S = 600
"""Longer than a checkpoint or an evaluation on one rank takes."""
IDLE_SHARE, WORKING_SHARE = 0.05, 0.5
"""KempnerPulse's bound for an idle GPU; DCGM's manual calls less than half ineffective."""
MORE_SHARE = 0.2
"""Of the median of the ranks (TraceML: imbalance)."""
MORE_BYTES = GIB
"""Less than that is a context or a cache more."""
RANKS_AT_LEAST = 3
"""Of two ranks nobody can say which one is usual."""
USED_SHARE = 0.1
"""gpu-usage-audit: from there on a GPU counts as used."""
HELD_BYTES = GIB
"""A driver, a display or MIG keeps less."""
HELD_FOR_S = 3600
"""jobstats warns of an idle job after an hour."""
