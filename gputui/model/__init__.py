"""Frozen dataclasses and named tuples, in bytes and seconds: what a source returns and a screen shows; no I/O.

`machine`: devices, processes, the host; `attached`: a process with a probe; `fleet`: many machines; `checkpoint`: a
model's files; `collectives`: NCCL's answers; `past`: hours of the record. `reading`: a value, or absent with a reason;
`history`: readings over time; `decode` checks what others sent or wrote, and makes objects of it.
"""
