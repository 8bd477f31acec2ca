"""A demonstration for a machine without a GPU: a training node that could be, and is said not to be."""

from gputui.sources.demo.source import DemoSource

__all__ = ["DemoSource"]
