"""Frozen dataclasses and named tuples, in bytes and seconds: what a source returns and a screen shows; no I/O.

`machine`: devices, processes, the host; `attached`: a process with a probe; `checkpoint`: a model's files. `reading`: a
value, or absent with its reason; `history`: readings over time; `decode`: what others sent or wrote, checked.
"""
