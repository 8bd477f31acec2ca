"""`gputui check`: what a step that has not run needs, what holds it, and why it needs more than its baseline says.

In: a `Rehearsal` (model/attached/trace.py). Out: a `Checked`. `peak.py` finds the peak and what holds it, `baseline.py`
keeps a peak small enough for git and compares two, `devices.py` is the table of GPUs, `words.py` says it.
"""
