"""Calls functions of the probe in the program's main thread, so that the program does not notice.

A function runs between two instructions of the program or, while the main thread does not come back to Python, in the
probe's own thread.

- `calls`: one call at a time, with the program running in between, and what to do if the main thread does not come.
- `pending_call`: the entry in the interpreter's queue of pending calls by which the main thread runs a function.
- `activity`: what the main thread is doing, seen from outside. `process`: the process, its rank and its devices.
- `held_signals`, `isolation`, `untraced`: the program's signal handlers, PyTorch's modes and Python's profilers, which
  are set aside for that time and then are as before.
"""
