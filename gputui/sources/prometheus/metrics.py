"""The exporters' names and units of each quantity, the most trusted exporter first.

dcgm-exporter has changed names and units in 4.9; a configuration may keep the old names, so names decide, not versions.
It may export a field without a value as 2^47 or 2^63 - 14, so the forms leave out impossible values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gputui.model.fleet.exporters import Exporter, Quantity


class Metric(NamedTuple):
    """`form` is an expression of the metrics `names` in base units; {0} is the first of these.

    `adds_up`: MIG instances have values of their own, which add up to the GPU's; otherwise they repeat the GPU's value.
    """

    exporter: Exporter
    names: tuple[str, ...]
    form: str = "{0}"
    adds_up: bool = False


_GPUTUI, _NEW, _OLD, _SMI = Exporter.GPUTUI, Exporter.DCGM_NEW, Exporter.DCGM, Exporter.SMI
_PERCENT = "({0} <= 100) / 100"
_RATIO = "({0} <= 1 or ({0} > 1) <= 100) / (1 + 99 * ({0} > bool 1))"
"""DCGM 4.6 has an integer percentage under the name of the ratio."""
_MIB = "({0} < 1e9) * 1048576"
_BYTES = "({0} < 1e15)"
_WATTS = "({0} < 1e5)"
_CELSIUS = "({0} < 1e3)"
_SUM_2, _SUM_3 = "(({0} < 1e9) + {1}) * 1048576", "(({0} < 1e9) + {1} + {2}) * 1048576"

METRICS: Mapping[Quantity, tuple[Metric, ...]] = {
    Quantity.PRESENT: (
        Metric(_GPUTUI, ("gputui_device_info",)),
        *(Metric(_NEW, (f"DCGM_FI_DEV_{name}",))
          for name in ("FB_USED_BYTES", "GPU_UTIL_RATIO", "GPU_TEMP_CELSIUS", "BOARD_POWER_WATTS")),
        *(Metric(_OLD, (f"DCGM_FI_DEV_{name}",)) for name in ("FB_USED", "GPU_UTIL", "GPU_TEMP", "POWER_USAGE")),
        Metric(_SMI, ("nvidia_smi_gpu_info",)),
    ),
    Quantity.LOST: (Metric(_GPUTUI, ("gputui_device_lost",)),),
    Quantity.BUSY: (
        Metric(_GPUTUI, ("gputui_device_busy_ratio",)),
        Metric(_NEW, ("DCGM_FI_DEV_GPU_UTIL_RATIO",), _RATIO),
        Metric(_OLD, ("DCGM_FI_DEV_GPU_UTIL",), _PERCENT),
        Metric(_SMI, ("nvidia_smi_utilization_gpu_ratio",)),
    ),
    Quantity.SM_ACTIVE: (
        Metric(_GPUTUI, ("gputui_device_sm_active_ratio",)),
        Metric(_NEW, ("DCGM_FI_PROF_SM_UTIL_RATIO",), "({0} <= 1)"),
        Metric(_OLD, ("DCGM_FI_PROF_SM_ACTIVE",), "({0} <= 1)"),
    ),
    Quantity.TENSOR: (
        Metric(_GPUTUI, ("gputui_device_tensor_active_ratio",)),
        Metric(_NEW, ("DCGM_FI_PROF_TENSOR_UTIL_RATIO",), "({0} <= 1)"),
        Metric(_OLD, ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",), "({0} <= 1)"),
    ),
    Quantity.USED: (
        Metric(_GPUTUI, ("gputui_device_memory_used_bytes",)),
        Metric(_NEW, ("DCGM_FI_DEV_FB_USED_BYTES",), _BYTES, adds_up=True),
        Metric(_OLD, ("DCGM_FI_DEV_FB_USED",), _MIB, adds_up=True),
        Metric(_SMI, ("nvidia_smi_memory_used_bytes",)),
    ),
    Quantity.TOTAL: (
        Metric(_GPUTUI, ("gputui_device_memory_capacity_bytes",)),
        Metric(_NEW, ("DCGM_FI_DEV_FB_CAPACITY_BYTES",), _BYTES, adds_up=True),
        Metric(_OLD, ("DCGM_FI_DEV_FB_TOTAL",), _MIB, adds_up=True),
        Metric(_OLD, ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED"), _SUM_3, adds_up=True),
        Metric(_OLD, ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"), _SUM_2, adds_up=True),
        Metric(_SMI, ("nvidia_smi_memory_total_bytes",)),
    ),
    Quantity.POWER: (
        Metric(_GPUTUI, ("gputui_device_power_watts",)),
        Metric(_NEW, ("DCGM_FI_DEV_BOARD_POWER_WATTS",), _WATTS),
        Metric(_OLD, ("DCGM_FI_DEV_POWER_USAGE",), _WATTS),
        Metric(_SMI, ("nvidia_smi_power_draw_watts",)),
    ),
    Quantity.LIMIT: (
        Metric(_GPUTUI, ("gputui_device_power_limit_watts",)),
        Metric(_NEW, ("DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS",), _WATTS),
        Metric(_OLD, ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT",), _WATTS),
        Metric(_OLD, ("DCGM_FI_DEV_POWER_MGMT_LIMIT",), _WATTS),
        Metric(_SMI, ("nvidia_smi_enforced_power_limit_watts",)),
    ),
    Quantity.TEMPERATURE: (
        Metric(_GPUTUI, ("gputui_device_temperature_celsius",)),
        Metric(_NEW, ("DCGM_FI_DEV_GPU_TEMP_CELSIUS",), _CELSIUS),
        Metric(_OLD, ("DCGM_FI_DEV_GPU_TEMP",), _CELSIUS),
        Metric(_SMI, ("nvidia_smi_temperature_gpu",), _CELSIUS),
    ),
}  # fmt: skip

NAMES = "gputui_(device|process|torch)_.*|DCGM_FI_(DEV|PROF)_.*|nvidia_smi_.*"
"""The names of metrics to ask for, as a regular expression."""

USED_BY_PROCESS, BUSY_BY_PROCESS = "gputui_process_memory_used_bytes", "gputui_process_busy_ratio"
RESERVED, ALLOCATED = "gputui_torch_reserved_bytes", "gputui_torch_allocated_bytes"
CHANGES, INFO = "gputui_torch_allocator_changes_total", "gputui_process_info"


class JobKind(NamedTuple):
    """A kind of job: its name in words, and the labels of a process's info that name the job (the last one may stand
    alone)."""

    words: str
    labels: tuple[str, ...]

    @property
    def key(self) -> str:
        """The label that every process in a job of this kind has."""
        return self.labels[-1]


JOB_KINDS = (
    JobKind("Slurm job", ("slurm_job_id",)),
    JobKind("pod", ("exported_namespace", "exported_pod")),
    JobKind("pod", ("namespace", "pod")),
    JobKind("Ray job", ("ray_job_id",)),
    JobKind("PyTorch job", ("rendezvous",)),
    JobKind("container", ("container",)),
    JobKind("container", ("container_id",)),
    JobKind("unit", ("unit",)),
)
"""A process belongs to the first kind whose key it has.

Without `honor_labels`, Prometheus keeps the pod of a process as `exported_pod`: `pod` is then the exporter's own.
"""


class Known(NamedTuple):
    """What a server has: names of metrics, and the kinds of jobs of which there are any."""

    names: frozenset[str]
    kinds: tuple[JobKind, ...] = ()

    def has(self, *names: str) -> bool:
        """Whether the server has metrics of all these names."""
        return self.names.issuperset(names)


def known_of(names: frozenset[str]) -> frozenset[Quantity]:
    """The quantities that can be read of some GPU if a server has metrics of these names."""
    return frozenset(quantity for quantity, rows in METRICS.items() if any(names.issuperset(row.names) for row in rows))
