"""NVIDIA's management library as a source: reads `gputui.model.machine.device` through a table of calls (`calls`)."""

from gputui.sources.nvml.source import NvmlSource

__all__ = ["NvmlSource"]
