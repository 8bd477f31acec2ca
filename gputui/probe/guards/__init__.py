"""What the rest of the probe builds on, so that neither the program nor the probe is harmed by the other.

- `boundary`: wraps each entry of the program into the probe, so that no error of the probe's gets out.
- `originals`: Python's own functions for threads and waiting, whatever the program has put in their place.
- `descriptors`: whether a socket is still the probe's own, in a program that closes every file descriptor.
- `interpreter_settings`: the switch interval and the garbage collector, which hold for all threads.
- `probe_thread`: the probe's own thread: waiting, being woken, no signals.
- `thread_frames`, `thread_numbers`: frames and numbers of threads, read without deadlocks and wild memory.

How the probe's modules are imported is in `own_imports.py` above, which must come before any of these.
"""
