"""Many machines at one moment, as a Prometheus knows them from exporters, or as gputui on them reports through ssh.

`fleet` is all that a screen shows; `parts` are nodes, GPUs, jobs and processes; `exporters` are the sources of the
figures; `attention` is what is on screen: nothing else is asked for in detail.
"""
