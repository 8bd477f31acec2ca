"""NVIDIA's management library as a source: reads `gputui.model.device` through a table of calls (`calls`)."""

from gputui.sources.nvml.source import NvmlSource

__all__ = ["NvmlSource"]
