"""Who tells a Prometheus of GPUs, and what can be known of a GPU by each."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Exporter(str, Enum):
    """The exporters that are known, in the order in which they are believed."""

    GPUTUI = "gputui export"
    DCGM_NEW = "dcgm-exporter (since 4.9)"
    DCGM = "dcgm-exporter (before 4.9)"
    SMI = "nvidia_gpu_exporter"
    SSH = "gputui through ssh"
    """In place of an exporter: gputui runs on the nodes while somebody looks."""


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
    """An exporter, and on how many nodes it tells of how many GPUs; a node can have several."""

    exporter: Exporter
    nodes: int
    gpus: int
