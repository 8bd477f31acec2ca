"""A demonstration for a machine without a GPU: a simulated training node.

`scenario` has its jobs, `curves` how figures change with time; `devices`, `host` and `processes` make readings of them,
for `gputui.sources.demo_machine`, and `fleet` answers for a cluster.
"""
