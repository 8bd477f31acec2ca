"""On the path of a program whose looks a test drives: they come when they are asked for, and their budget is in steps.

Automatic looks have no pace, so the viewer asks for the next when the last has come. The clock of a look's budget goes
on with the work and not with the time, so that a busy machine sees as much as an idle one. `tests/probe/test_pace.py`
is about the pace.
"""

from itertools import count

from gputui.probe.pace import meter, pace

STEP_S = 1e-6
"""What a step takes on a quick machine."""

pace.MIN_INTERVAL_S = 0.0
pace.SHARE_OF_TIME = float("inf")
meter.Meter.__init__.__kwdefaults__["clock"] = count(0.0, meter.STEPS_BETWEEN_CHECKS * STEP_S).__next__
