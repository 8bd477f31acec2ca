"""Serves viewers in the probe's own thread: who may connect, what they ask for, and what they are sent.

A viewer connects to the probe's socket and sends requests, and the probe sends frames (the protocol is in
`gputui/probe/README.md`). The thread sleeps in `poll` until a viewer sends something, or something is due.

- `server`: the loop: in which order things are done, for which viewer, and when a look may begin.
- `sockets`: the socket's file, its folder and their owners. `connection`: one viewer, and its connection.
- `requests`: a viewer's messages, checked field by field. `garbage`: what `gc.collect()` would free.
- `actions`: a table of what a viewer can have done in the program (`gc.collect()`, `empty_cache()`, memory history).
- `step`, `ring`: recording a step, the action that takes seconds, and how many events PyTorch keeps for it.

A new kind of message begins in `requests`, a new action in `actions`.
"""
