"""`gputui check`: what a step that has not run needs, what holds that memory, and why it is more than its baseline.

In: a `Target` and its `Rehearsal` (model/attached/trace.py). Out: a `Checked`. `peak` finds the peak and its holders,
`baseline` keeps and compares peaks, `plan` tries what fits, `variants` has other ranks and arguments of a target.
"""
