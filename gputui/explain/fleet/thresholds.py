"""The numbers at which a rule about a fleet makes a finding, each with its reason or with who else uses it."""

from __future__ import annotations

from gputui.units import GIB

GONE_WITHIN_S = 3600
"""A node or GPU that was taken away on purpose is a finding for no longer than this."""
BUSY_SHARE = 0.95
STUCK_FOR_S = 300
"""A training allocates and frees many times a second; an evaluation that replays a CUDA graph ends within minutes."""
IDLE_IN_JOB_FOR_S = 600
"""Longer than a checkpoint or an evaluation on one rank takes."""
IDLE_SHARE, WORKING_SHARE = 0.05, 0.5
"""KempnerPulse's bound for an idle GPU; DCGM's manual calls less than half ineffective."""
MORE_SHARE = 0.2
"""More memory than the median of the ranks, as a share of it (TraceML: imbalance)."""
MORE_BYTES = GIB
"""A difference of less is one more context or cache."""
RANKS_AT_LEAST = 3
"""With two ranks nobody can say which one is usual."""
USED_SHARE = 0.1
"""The busy share from which on a GPU counts as used (gpu-usage-audit)."""
HELD_BYTES = GIB
"""Memory that counts as held: a driver, a display or MIG keeps less."""
HELD_FOR_S = 3600
"""jobstats warns of an idle job after an hour."""
