"""Puts the probe into a running Python program. Linux, standard library only; knows nothing of the rest of gputui.

`checks` looks at a process from outside and says what stands in the way. `loading` does it: by the remote debugging
protocol of Python 3.14 and newer (`remote_debugging`), by a pending call that a helper process queues in the stopped
main thread (`tracer_process`, `pending_call`), or, where there is no machine code for the processor, by gdb (`by_gdb`).
All run `bootstrap.py` in the program, with the probe's modules from `payload`.
"""
