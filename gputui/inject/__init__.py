"""Puts the probe into a running Python program. Linux, standard library only; knows nothing of the rest of gputui.

`process` reads what can be known from outside; `refusals` are the reasons to leave it alone; `checks` asks both.
`loading` does it, through one of the `ways`: the remote debugging protocol of Python 3.14 and newer, a pending call
that a helper process (`tracer_process`) queues in the stopped main thread, or gdb, without machine code for the
processor.
"""
