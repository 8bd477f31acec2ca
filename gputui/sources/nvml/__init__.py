"""NVIDIA's management library as a source: device readings, processes on devices, errors of the driver.

`library` finds the library, `binding` and `raw_calls` call it. `source` reads all devices through `session`, `gpu` and
`device_reader`; `calls` says which calls are behind each reading. What is counted over time or takes long has files of
its own: `pcie`, `nvlink`, `gpm`, `throttling`, `xids`, `slow`. `processes` reads memory and SM shares by process.
"""

from gputui.sources.nvml.source import NvmlSource

__all__ = ["NvmlSource"]
