"""dcgm-exporter's page as a second source of true utilisation: both generations of its names, and whoever listens."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gputui.model.reading import Absent, AbsentKind
from gputui.sources.nvml.gpm import NO_GPM
from gputui.sources.pages import fetch
from gputui.sources.pages.dcgm import DcgmPage, shares_on
from tests.conftest import FakeGpus
from tests.hanging import HANGS_S, NOT_WITHIN_S, wait_until
from tests.sources.conftest import Looks
from tests.sources.listening import listener
from tests.sources.waiting import look_until

PAGES = Path(__file__).resolve().parent.parent / "data" / "dcgm"
GENERATIONS = ("before-4.6", "since-4.6")


@contextmanager
def exporter(page: str) -> Iterator[tuple[str, int]]:
    """The address of a web server with this page at /metrics."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            """Nothing on standard error."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_address[:2]
        server.shutdown()


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_page_has_percentages_by_gpu_and_instance(generation):
    assert shares_on((PAGES / generation).read_text()) == {
        ("GPU-00000000", None): {
            "sm_active_percent": pytest.approx(89.2345),
            "sm_occupancy_percent": pytest.approx(35.0),
            "tensor_percent": pytest.approx(38.4),
            "dram_percent": pytest.approx(41.0),
            "fp32_percent": pytest.approx(3.0),
        },
        ("GPU-00000001", 7): {
            "sm_active_percent": pytest.approx(44.6173, abs=1e-3),
            "sm_occupancy_percent": pytest.approx(17.5),
            "tensor_percent": pytest.approx(19.2),
            "dram_percent": pytest.approx(20.5),
            "fp32_percent": pytest.approx(1.5),
        },
        ("GPU-00000002", None): {"tensor_percent": pytest.approx(25.0)},
    }


def test_a_gpu_without_gpm_has_what_is_on_the_page(fake_gpus: FakeGpus, looks: Looks):
    first, second = (device.uuid for device in looks.look().devices)
    page = (PAGES / GENERATIONS[0]).read_text().replace("GPU-00000000", first)
    with exporter(page) as address:
        looks.source.watch_profiles(page=DcgmPage(address))
        found = look_until(looks, lambda look: look.devices[0].profile_source == "dcgm-exporter").devices
    assert found[0].tensor_percent == pytest.approx(38.4)
    assert found[0].fp64_percent == Absent("not on dcgm-exporter's page", AbsentKind.NOT_SUPPORTED)
    assert found[1].uuid == second
    assert found[1].tensor_percent == NO_GPM


def test_an_instance_is_found_by_its_gpu_and_number(fake_gpus: FakeGpus, looks: Looks):
    fake_gpus.up(1, mig=2)
    gpu, *_ = looks.look().devices
    page = (
        (PAGES / GENERATIONS[1]).read_text().replace("GPU-00000001", gpu.uuid).replace('GPU_I_ID="7"', 'GPU_I_ID="2"')
    )
    with exporter(page) as address:
        looks.source.watch_profiles(NOT_WITHIN_S, DcgmPage(address))
        found = look_until(looks, lambda look: look.devices[2].profile_source == "dcgm-exporter").devices
    assert [device.tensor_percent for device in found] == [NO_GPM, NO_GPM, pytest.approx(19.2)]


def test_no_page_is_asked_for_where_all_gpus_have_gpm(fake_gpus: FakeGpus, looks: Looks):
    fake_gpus.up(1, busy=True, gpm=True)
    asked = threading.Event()
    with listener(lambda _: asked.set()) as address:
        looks.source.watch_profiles(NOT_WITHIN_S, DcgmPage(address))
        looks.look()
        assert looks.look().devices[0].profile_source == "gpm"
        assert not asked.is_set()
        socket.create_connection(address).close()  # ends the listener


def test_a_program_that_looks_once_has_the_page(fake_gpus: FakeGpus, looks: Looks):
    page = (PAGES / GENERATIONS[0]).read_text().replace("GPU-00000000", looks.look().devices[0].uuid)
    with exporter(page) as address:
        looks.source.watch_profiles(HANGS_S, DcgmPage(address))
        assert looks.look().devices[0].profile_source == "dcgm-exporter"


def endless(connection: socket.socket) -> None:
    try:
        while True:
            connection.sendall(b'DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-0"} 1\n' * 1000)
    except OSError:
        return


def silent(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def binary(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(bytes(range(256)) * 50 + b'\nDCGM_FI_PROF_SM_ACTIVE{UUID="\x1b[2J"} 0.5\n')


@pytest.mark.parametrize("answer", [endless, silent, binary])
def test_whoever_listens_gets_no_number_in_and_delays_nobody(answer, monkeypatch):
    monkeypatch.setattr(fetch, "_WITHIN_S", 0.05)
    with listener(answer) as address:
        page = DcgmPage(address)
        page.look()
        wait_until(lambda: not page._thread.is_alive())
    assert set(page.look()) <= {("\x1b[2J", None)}


def test_a_port_where_nothing_listens_is_asked_again_after_a_minute():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    now = [0.0]
    page = DcgmPage(address, lambda: now[0])
    assert page.look(NOT_WITHIN_S) == {}
    with exporter((PAGES / GENERATIONS[0]).read_text()) as there:
        page._address = there
        assert page.look(NOT_WITHIN_S) == {}
        now[0] += 61
        assert page.look(HANGS_S).keys() >= {("GPU-00000000", None)}


def test_an_exporter_that_ends_leaves_no_old_number():
    now = [0.0]
    with exporter((PAGES / GENERATIONS[0]).read_text()) as address:
        page = DcgmPage(address, lambda: now[0])
        assert page.look(HANGS_S)
    now[0] += 11
    assert page.look(NOT_WITHIN_S) == {}


@pytest.mark.parametrize(
    "line",
    [
        'DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-0"} NaN',
        'DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-0"} 1.5',
        'DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-0"} -1',
        'DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-0"} 1e',
        'DCGM_FI_PROF_SM_ACTIVE{gpu="0"} 0.5',
        'DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-0" 0.5',
        "DCGM_FI_PROF_SM_ACTIVE",
        'DCGM_FI_PROF_NVLINK_TX_BYTES{UUID="GPU-0"} 0.5',
    ],
)
def test_a_line_that_cannot_be_is_no_share(line):
    assert shares_on(line) == {}
