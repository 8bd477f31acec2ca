"""How long a thread waits before it tries again what has failed: a node, a server."""

from __future__ import annotations

AGAIN_S, AGAIN_AT_MOST_S = 5.0, 60.0
"""How long to wait after a failure, twice as long after each further one; and at most."""
_DOUBLED_AT_MOST = 10
"""How often the wait is doubled: no float is as large as 2 to the power of a day's failures."""


def again_after_s(failures: int) -> float:
    """How long to wait after so many failures, one after the other."""
    return min(AGAIN_AT_MOST_S, AGAIN_S * 2.0 ** min(max(0, failures - 1), _DOUBLED_AT_MOST))
