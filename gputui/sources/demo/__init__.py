"""A demonstration for a machine without a GPU: a simulated training node.

`scenario` has its jobs, `curves` how figures change with time; `devices`, `host` and `processes` make readings of them,
and `source` answers as the real sources do.
"""

from gputui.sources.demo.source import DemoSource

__all__ = ["DemoSource"]
