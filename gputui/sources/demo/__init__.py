"""A demonstration for a machine without a GPU: a simulated training node.

`scenario` has its jobs, `curves` the functions by which figures change with time; `devices`, `host` and `processes`
make readings from these for `gputui.sources.demo_machine`. `fleet` answers like the Prometheus of a cluster.
"""
