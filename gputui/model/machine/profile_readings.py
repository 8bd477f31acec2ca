"""The readings of true utilisation: how much a GPU's units work. NVML's "busy" says only that a kernel runs.

A kernel that waits for another GPU makes a GPU 100 % busy; its SMs, tensor cores and memory show whether it works.
"""

from __future__ import annotations

from gputui.model.machine.reading_declaration import (
    MEAN_PERCENT,
    TEXT,
    Cadence,
    DeviceReading,
    OverviewColumn,
    ReadingGraph,
    anything,
    between,
)

PROFILE = "True utilisation"
"""The group of the device screen's rows."""

_A_MEAN_SHARE = between(0, 101)
"""Counters are read one after the other, so the share of a unit that never rests may exceed 100 % a little."""


def _share(
    field: str, label: str, *, graph: str = "", column: OverviewColumn | None = None, document: str = ""
) -> DeviceReading:
    return DeviceReading(
        field,
        Cadence.MEAN,
        MEAN_PERCENT,
        _A_MEAN_SHARE,
        PROFILE,
        label,
        graph=ReadingGraph(graph, top=lambda _: 100) if graph else None,
        column=column,
        document=document,
        of_instances=True,
    )


PROFILE_READINGS = (
    _share(
        "sm_active_percent",
        "SMs active",
        graph="SMs active",
        column=OverviewColumn("SM act", 6, from_width=170, role="plain"),
        document="profile.sm_active_percent",
    ),
    _share("sm_occupancy_percent", "SM occupancy", document="profile.sm_occupancy_percent"),
    _share("tensor_percent", "tensor cores", graph="Tensor cores", document="profile.tensor_percent"),
    _share(
        "dram_percent",
        "memory bandwidth",
        graph="Memory bandwidth",
        column=OverviewColumn("DRAM", 5, from_width=170, role="plain"),
        document="profile.dram_percent",
    ),
    _share("fp64_percent", "FP64"),
    _share("fp32_percent", "FP32"),
    _share("fp16_percent", "FP16"),
    _share("integer_percent", "integer"),
    DeviceReading(
        "profile_source",
        Cadence.MEAN,
        TEXT,
        anything,
        PROFILE,
        "measured by",
        document="profile.source",
        of_instances=True,
    ),
)

PROFILED = tuple(reading.field for reading in PROFILE_READINGS)
