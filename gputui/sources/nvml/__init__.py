"""NVIDIA's management library as a source: device readings, processes on devices, errors of the driver.

In: the library (`library`, `binding`, `raw_calls`). Out: `model.machine.device`. `source` looks through `session`,
`gpu` and `device_reader`; `calls` is the table of which call is behind which reading. What has to be counted over time
or takes long is apart: `pcie`, `nvlink`, `gpm`, `throttling`, `xids`, `slow`. `processes`: memory and SM shares.
"""

from gputui.sources.nvml.source import NvmlSource

__all__ = ["NvmlSource"]
