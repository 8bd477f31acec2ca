"""A demonstration for a machine without a GPU: a simulated training node."""

from gputui.sources.demo.source import DemoSource

__all__ = ["DemoSource"]
