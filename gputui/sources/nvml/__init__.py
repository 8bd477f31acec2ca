"""NVIDIA's management library as a source: a table of readings (`table`), read into `gputui.model.device`."""

from gputui.sources.nvml.source import NvmlSource

__all__ = ["NvmlSource"]
