"""How thorough the tests that repeat something are, as one number that every such test reads here."""

from __future__ import annotations

import os

SCALE: int = int(os.environ.get("GPUTUI_TEST_SCALE", "1"))
"""The factor of repetitions: 1 in daily use, more for a nightly run; set by $GPUTUI_TEST_SCALE."""
