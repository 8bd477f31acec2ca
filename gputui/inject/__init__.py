"""Puts the probe into a running Python program. Linux, standard library only; knows nothing of the rest of gputui.

`process` reads what can be known from outside; `refusals` are the reasons to leave a program alone; `checks` uses both.
`loading` puts the probe in by one of the `ways`: the remote debugging protocol of Python 3.14, a pending call that a
helper process (`tracer_process`) queues in the stopped main thread or, without machine code for the processor, gdb.
"""
