"""Sizes that identify blocks without an owner."""

from types import SimpleNamespace

import pytest

from gputui.probe.allocator import known_sizes
from gputui.probe.tensors.entries import HOST

MIB = 1 << 20


class Float16:
    """Stands for a dtype of PyTorch."""

    itemsize = 2

    def __str__(self):
        return "torch.float16"


def torch_with(capability=(9, 0), *, is_initialized=True, autocast=False):
    """The part of `torch` that `known_sizes` reads: device properties and the state of autocast."""
    properties = SimpleNamespace(major=capability[0], minor=capability[1])
    return SimpleNamespace(
        cuda=SimpleNamespace(is_initialized=lambda: is_initialized, _get_device_properties=lambda device: properties),
        autocast_increment_nesting=lambda: autocast + 1,
        autocast_decrement_nesting=lambda: autocast,
        is_autocast_cache_enabled=lambda: True,
        get_autocast_dtype={"cuda": Float16()}.get,
        _C=SimpleNamespace(_cuda_getDevice=lambda: 1),
    )


def parameter(device, *shape):
    size_bytes = 4
    for length in shape:
        size_bytes *= length
    kind = {"category": "parameter", "dtype": "float32"}
    return {"device": device, "size_bytes": size_bytes, "shape": list(shape), **kind}


def sizes(torch, storages):
    devices = {storage["device"] for storage in storages} - {HOST}
    return {(k["device"], k["owner"]): k["size_bytes"] for k in known_sizes.known_sizes(torch, devices, storages)}


@pytest.mark.parametrize(
    ("capability", "setting", "size_bytes"),
    [
        pytest.param((9, 0), "", 32 * MIB, id="Hopper"),
        pytest.param((8, 0), "", 8519680, id="Ampere"),
        pytest.param((12, 0), ":4096:8", 32 * MIB, id="Blackwell, set"),
        pytest.param((9, 0), ":4096:8", 32 * MIB, id="one pair"),
        pytest.param((9, 0), ":4096:2:16:8", 8519680, id="two pairs"),
        pytest.param((9, 0), ":16:8", 128 << 10, id="small"),
        pytest.param((9, 0), "nonsense", 32 * MIB, id="not a setting"),
        pytest.param((9, 0), ":4096", 32 * MIB, id="half a pair"),
    ],
)
def test_the_cublas_workspace_has_the_size_that_pytorch_chooses(monkeypatch, capability, setting, size_bytes):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", setting)
    assert sizes(torch_with(capability), [parameter(1, 2)])[1, "cuBLAS workspace"] == size_bytes


@pytest.mark.parametrize("major", [10, 12])
def test_on_blackwell_the_cublas_workspace_has_the_size_of_older_or_newer_versions(monkeypatch, major):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    known = known_sizes.known_sizes(torch_with((major, 0)), {0}, [])
    assert [one["size_bytes"] for one in known if one["owner"] == "cuBLAS workspace"] == [8519680, 32 * MIB]


@pytest.mark.parametrize(("setting", "size_bytes"), [("", MIB), ("4096", 4 * MIB), ("much", MIB)])
def test_the_cublaslt_workspace_is_set_in_kib(monkeypatch, setting, size_bytes):
    monkeypatch.setenv("CUBLASLT_WORKSPACE_SIZE", setting)
    assert sizes(torch_with(), [parameter(0, 2)])[0, "cuBLASLt workspace"] == size_bytes


def test_a_workspace_switched_off_has_no_size(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    assert (0, "cuBLAS workspace") not in sizes(torch_with(), [parameter(0, 2)])


def test_autocast_copies_have_half_the_bytes_of_parameters():
    sizes_by_owner = sizes(torch_with(autocast=True), [parameter(0, 3, 5), parameter(0, 3, 5), parameter(-1, 7)])
    assert sizes_by_owner[0, "float16 copy of a parameter of shape [3, 5] (autocast)"] == 30
    assert not [owner for _, owner in sizes_by_owner if "[7]" in owner]


def test_there_are_no_known_sizes_before_cuda_is_initialised():
    assert sizes(torch_with(is_initialized=False), [parameter(0, 2)]) == {}


def test_a_look_without_time_for_tensors_knows_the_workspaces_of_the_current_device():
    assert set(sizes(torch_with(), [])) == {(1, "cuBLAS workspace"), (1, "cuBLASLt workspace")}
