"""The exporters that report GPUs to a Prometheus, and the quantities that they report."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Exporter(str, Enum):
    """The exporters that gputui knows, the most trusted first."""

    GPUTUI = "gputui export"
    DCGM_NEW = "dcgm-exporter (since 4.9)"
    DCGM = "dcgm-exporter (before 4.9)"
    SMI = "nvidia_gpu_exporter"
    SSH = "gputui through ssh"
    """No exporter: gputui runs on the nodes while somebody looks."""


class Quantity(str, Enum):
    """What is read of a GPU."""

    PRESENT = "present"
    LOST = "lost"
    BUSY = "busy"
    SM_ACTIVE = "sm_active"
    TENSOR = "tensor"
    USED = "memory_used"
    TOTAL = "memory_total"
    POWER = "power"
    LIMIT = "power_limit"
    TEMPERATURE = "temperature"


class Found(NamedTuple):
    """An exporter, and on how many nodes it reports how many GPUs; a node can have several exporters."""

    exporter: Exporter
    nodes: int
    gpus: int
