"""What everything else stands on, so that the probe survives the program, and the program survives the probe.

- `boundary`: where the program enters the probe. No error of the probe's gets out there.
- `originals`: Python's own functions for threads and waiting, whatever the program has put in their place.
- `descriptors`: whether a socket is still the probe's own, in a program that closes every file descriptor.
- `probe_thread`: the probe's own thread: waiting, being woken, no signals.
- `thread_frames`, `thread_numbers`: frames and numbers of threads, without the traps in asking for them.

How the probe's modules are imported is in `own_imports.py` above, which must come before any of these.
"""
