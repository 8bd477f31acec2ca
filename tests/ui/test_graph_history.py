"""Which readings of a snapshot are kept for graphs."""

from gputui.explain.machine.record import PROCESSES_AT_MOST, record
from gputui.model.history import POINTS, History, Series
from gputui.model.machine.device_readings import GRAPHED
from gputui.model.reading import Absent
from gputui.ui.drawing.band import ALL_DEVICES, HOST, band_graphs
from gputui.ui.drawing.monitor.process_page import history_owner
from gputui.units import GIB
from tests.ui import scenes

GPU = "GPU-00000000"


def recorded(*scenes_seen) -> History:
    history = History()
    for scene in scenes_seen:
        record(history, scene)
    return history


def last(history: History, owner: str, name: str) -> float | None:
    return history.last(owner, name, 1)[0]


def test_every_graphed_reading_of_a_device_is_recorded():
    history = recorded(scenes.snapshot((scenes.device(**scenes.PROFILE),)))
    for reading in GRAPHED:
        assert last(history, GPU, reading.series) is not None, reading.series


def test_an_absent_reading_is_a_gap_and_not_zero():
    history = recorded(scenes.snapshot((scenes.device(power_w=Absent("no"), memory=Absent("no")),)))
    assert last(history, GPU, "power_w") is None
    assert last(history, GPU, "used_bytes") is None


def test_a_stale_look_adds_no_device_readings_and_forgets_none():
    first, second = scenes.node(1), scenes.node(9)._replace(devices_age_s=8.0)
    history = recorded(first, second)
    assert last(history, GPU, "power_w") is None
    assert history.last(GPU, "power_w", 5)[0] == 400.0
    assert last(history, HOST, "cpu_percent") == 37.0


def test_mig_instances_are_not_counted_twice():
    board = scenes.device(0)
    history = recorded(scenes.snapshot((board, *scenes.instances(0, 3))))
    assert last(history, ALL_DEVICES, "used_bytes") == 10 * GIB
    assert last(history, ALL_DEVICES, "gpu_utilization_percent") == 90
    graphs = band_graphs(scenes.snapshot((board, *scenes.instances(0, 3))), history, 10)
    assert (graphs[1].shown, graphs[1].top) == ("10.0 GiB", 80 * GIB)


def test_process_readings_are_stored_by_identity_and_device():
    (one,) = (scenes.process(7, 0, 3.0),)
    history = recorded(scenes.snapshot(scenes.devices(1), (one,)))
    assert last(history, history_owner(one), f"used_bytes {GPU}") == 3 * GIB
    assert last(history, history_owner(one), "cpu_percent") == 99.0


def test_processes_and_devices_that_are_gone_are_forgotten():
    one = scenes.process(7)
    history = recorded(scenes.snapshot(scenes.devices(2), (one,)), scenes.snapshot(scenes.devices(1), number=2))
    assert history.last(history_owner(one), "cpu_percent", 5) == [None] * 5
    assert history.last("GPU-00000001", "power_w", 5) == [None] * 5


def test_of_thousands_of_processes_some_have_graphs_and_keep_them():
    crowd = [scenes.process(number, 0, number / 1000) for number in range(1, 3001)]
    first = scenes.snapshot(scenes.devices(1), tuple(crowd))
    history = recorded(first)
    graphed = [process for process in crowd if history.knows(history_owner(process))]
    assert graphed == crowd[-PROCESSES_AT_MOST:]
    grown = [process._replace(uses=(process.uses[0]._replace(used_bytes=GIB * 9),)) for process in crowd[:100]]
    later = scenes.snapshot(scenes.devices(1), (*grown, *crowd[100:-50]), number=2)
    record(history, later._replace(details=scenes.details(crowd[1500].identity)))
    kept = [process.pid for process in crowd if history.knows(history_owner(process))]
    assert kept == [*range(1, 50), 1501, *range(3001 - PROCESSES_AT_MOST, 2951)]
    assert len(kept) == PROCESSES_AT_MOST


def all_series(history: History) -> list[Series]:
    return [series for named in history._series.values() for zooms in named.values() for series in zooms]


def test_a_day_of_snapshots_takes_bounded_memory():
    history = History()
    for number in range(2000):
        record(history, scenes.node()._replace(time=scenes.NOW + 2 * number))
    series = all_series(history)
    assert POINTS <= max(len(one._means) for one in series) < 2 * POINTS
    assert len(series) == len(all_series(recorded(scenes.node())))
