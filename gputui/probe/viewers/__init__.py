"""Viewers are served here, in the probe's own thread: who may connect, what they ask for, and what they are sent.

In comes a connection on the probe's socket, and over it requests (the protocol is in `gputui/probe/README.md`). Out go
frames. The thread sleeps in `poll` until a viewer has something to say, or something is due.

- `server`: the loop. What is done in which turn, for whom, and when a look may begin.
- `sockets`: the socket's file, its folder and their owners. `connection`: one viewer, and its socket.
- `requests`: its messages, checked field by field.
- `actions`: what it can have done in the program (`gc.collect()`, `empty_cache()`, a history): one entry in a table.
- `step`, `ring`: the action that takes seconds, a recorded step, and how many events PyTorch keeps for it.

A new kind of message begins in `requests`, a new action in `actions`.
"""
