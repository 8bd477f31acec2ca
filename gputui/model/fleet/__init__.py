"""Many machines at one moment, as exporters tell a Prometheus of them.

`fleet` is all that a screen shows, `parts` are nodes, GPUs, jobs and processes, `exporters` who tells of them, and
`attention` what is on screen, which alone is asked for in detail.
"""
