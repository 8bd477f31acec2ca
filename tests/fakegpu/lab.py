"""The state of the fake GPUs in Python, and the build of the libraries, for the `fakegpu` command and the tests.

The structures mirror `state.h`; change both together.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import random
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from ctypes import c_char, c_int32, c_int64, c_uint32, c_uint64
from functools import lru_cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
MAGIC, VERSION = 0x55504746, 9
DEVICES, PROCESSES, FAULTS, ANSWERS, CALLS = 32, 8192, 32, 16, 192
MIB = 1 << 20

GHOST, GRAPHICS, NO_MEMORY, MPS, COMPUTE, IDLE, NO_PID = 1, 2, 4, 8, 16, 32, 64
"""Flags of a process: see `state.h`."""

TEXTS = ("name", "uuid", "bus_id")


class Process(ctypes.Structure):
    _fields_ = [("pid", c_int32), ("flags", c_uint32), ("used", c_uint64 * DEVICES), ("sm", c_uint32 * DEVICES)]


class Device(ctypes.Structure):
    _fields_ = [
        *[(name, c_char * size) for name, size in (("name", 96), ("uuid", 80), ("bus_id", 32))],
        *[(name, c_uint64) for name in ("total", "reserved", "context")],
        *[(name, c_uint32) for name in ("util", "mem_util", "enc", "dec", "temperature", "fan")],
        *[(name, c_uint32) for name in ("power", "power_limit", "max_power")],
        *[(name, c_uint32) for name in ("sm_clock", "mem_clock", "max_sm_clock", "max_mem_clock")],
        *[(name, c_uint32) for name in ("pcie_gen", "pcie_width", "pcie_tx", "pcie_rx")],
        *[(name, c_uint64) for name in ("throttle", "ecc_uncorrected", "energy")],
        *[(name, c_uint32) for name in ("pstate", "persistence", "compute_mode", "animate")],
        ("parent", c_int32),
        *[(name, c_uint32) for name in ("mig", "gi", "ci")],
        *[(name, c_uint32) for name in ("display", "mem_temperature")],
        *[(name, c_uint32) for name in ("remapped_correctable", "remapped_uncorrectable")],
        *[(name, c_uint32) for name in ("remap_pending", "remap_failed", "retired_single", "retired_double")],
        *[(name, c_uint32) for name in ("nvlinks", "nvlinks_active")],
        *[(name, c_uint64) for name in ("nvlink_tx", "nvlink_rx", "ecc_corrected")],
        ("sample_age_us", c_int64),
        ("sampled_at_us", c_uint64),
        *[(name, c_uint32) for name in ("gpm", "gpm_graphics", "gpm_sm", "gpm_occupancy")],
        *[(name, c_uint32) for name in ("gpm_integer", "gpm_tensor", "gpm_dram", "gpm_fp64", "gpm_fp32", "gpm_fp16")],
        *[(name, c_uint32) for name in ("gpm_pcie_tx", "gpm_pcie_rx", "gpm_nvlink_rx", "gpm_nvlink_tx")],
        *[(name, c_uint32) for name in ("recovery_action", "xid_count")],
        ("xids", c_uint32 * 8),
        *[(name, c_uint64) for name in ("slowed_until_us", "slowed_power_ns", "slowed_thermal_ns")],
    ]


class Fault(ctypes.Structure):
    _fields_ = [
        ("function", c_char * 64),
        ("device", c_int32),
        ("error", c_int32),
        ("delay_us", c_uint32),
        ("pad", c_uint32),
    ]


class Answer(ctypes.Structure):
    _fields_ = [("function", c_char * 64), ("device", c_int32), ("pad", c_uint32), ("number", c_uint64)]


class Call(ctypes.Structure):
    _fields_ = [("function", c_char * 64), ("count", c_uint64)]


class State(ctypes.Structure):
    _fields_ = [
        *[(name, c_uint32) for name in ("magic", "version", "devices", "cuda_version")],
        ("driver", c_char * 80),
        *[(name, c_uint32) for name in ("procs", "pad")],
        ("dev", Device * DEVICES),
        ("fault", Fault * FAULTS),
        ("answer", Answer * ANSWERS),
        ("call", Call * CALLS),
        ("proc", Process * PROCESSES),
    ]


SLOW_US = {
    "nvmlDeviceGetPcieThroughput": 20000,
    "nvmlDeviceGetUtilizationRates": 300,
    "nvmlDeviceGetPowerUsage": 300,
    "nvmlDeviceGetProcessUtilization": 1000,
    "nvmlDeviceGetMemoryInfo": 100,
    "nvmlDeviceGetMemoryInfo_v2": 100,
    "nvmlDeviceGetComputeRunningProcesses_v3": 500,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": 500,
    "nvmlDeviceGetTemperature": 50,
    "nvmlDeviceGetClockInfo": 50,
    "nvmlDeviceGetViolationStatus": 700,
    "nvmlGpmSampleGet": 1000,
    "nvmlGpmMetricsGet": 2500,
}
"""Durations of NVML's slow calls on a real GPU, in µs, rounded."""


class Lab:
    """The fake GPUs of one state file. `up` creates them; the other methods change what they report."""

    def __init__(self, path: Path | str, *, is_new: bool = False) -> None:
        self.path = Path(path)
        size = ctypes.sizeof(State)
        if is_new and not (self.path.exists() and self.path.stat().st_size == size):
            self.path.write_bytes(b"")
            os.truncate(self.path, size)
        with self.path.open("r+b") as file:
            self.state = State.from_buffer(mmap.mmap(file.fileno(), size))

    def up(
        self,
        gpus: int = 1,
        *,
        mig: int = 0,
        busy: bool = False,
        animate: bool = False,
        real_delays: bool = False,
        name: str = "NVIDIA H100 80GB HBM3",
        memory_gib: float = 79.65,
        fan: int = 0,
        nvlinks: int | None = None,
        gpm: bool = False,
        seed: int = 0,
    ) -> None:
        """Create `gpus` devices, with the last divided into `mig` instances; this replaces the previous state.

        The file is changed in place, so that a program that has it mapped sees the new devices. More than one GPU
        has 18 NVLinks each unless `nvlinks` says otherwise.
        """
        state = self.state
        self.clear("processes")
        ctypes.memset(ctypes.byref(state), 0, State.proc.offset)
        state.cuda_version, state.driver = 13000, b"580.159.04"
        rng = random.Random(seed)
        links = nvlinks if nvlinks is not None else 18 * (gpus > 1)
        for i in range(gpus):
            d = state.dev[i]
            d.name, d.total, d.reserved, d.context = name.encode(), int(memory_gib * 1024) * MIB, 512 * MIB, 518 * MIB
            d.uuid, d.bus_id = _uuid(b"GPU", rng), b"00000000:%02X:00.0" % (0x0F + 0x10 * i)
            d.parent = -1
            d.temperature, d.mem_temperature, d.fan = 34 + i, 42 + i, fan
            d.power, d.power_limit, d.max_power = 72000 + 1000 * i, 700000, 700000
            d.sm_clock, d.mem_clock, d.max_sm_clock, d.max_mem_clock = 345, 2619, 1980, 2619
            d.pcie_gen, d.pcie_width, d.pcie_tx, d.pcie_rx = 5, 16, 120, 80
            d.pstate, d.persistence, d.throttle, d.animate = 0, 1, 1, animate
            d.nvlinks = d.nvlinks_active = links
            d.gpm = gpm
            if busy:
                d.util, d.mem_util, d.temperature, d.power = 93 - i % 5, 47, 64 + i % 4, 540000
                d.mem_temperature, d.sm_clock, d.throttle = 72 + i % 4, 1755, 4
                d.pcie_tx, d.pcie_rx = 1_400_000, 2_100_000
                _work(d, i)
        for k in range(mig):
            self._cut(gpus - 1, gpus + k, k + 1, rng)
        for fault, (function, delay_us) in zip(state.fault, SLOW_US.items() if real_delays else ()):
            fault.function, fault.device, fault.delay_us = function.encode(), -1, delay_us
        state.magic, state.version, state.devices = MAGIC, VERSION, gpus

    def _cut(self, parent: int, place: int, gpu_instance: int, rng: random.Random) -> None:
        whole, part = self.state.dev[parent], self.state.dev[place]
        whole.mig, part.parent, part.gi, part.ci = 1, parent, gpu_instance, 0
        part.name, part.total, part.reserved = whole.name + b" MIG 1g.10gb", whole.total // 8, 16 * MIB
        part.uuid, part.bus_id, part.context = _uuid(b"MIG", rng), whole.bus_id, 300 * MIB
        part.gpm = whole.gpm
        if whole.util:
            _work(part, place)

    def set(self, device: int, **values: int | str) -> None:
        """Change what `device` reports, by the field names of `Device`. MIG instances follow the whole devices."""
        for key, value in values.items():
            setattr(self.state.dev[device], key, value.encode() if key in TEXTS else int(value))

    def xid(self, device: int, number: int) -> None:
        """Have the driver report an error of `device` to whoever waits for events."""
        d = self.state.dev[device]
        d.xids[d.xid_count % len(d.xids)] = number
        d.xid_count += 1

    def fault(self, function: str, *, error: int = 0, device: int = -1, delay_us: int = 0) -> None:
        """Make `function` (a trailing * matches any ending) fail or be slow, on one device or on all (-1)."""
        f = next(f for f in self.state.fault if not f.function)
        f.device, f.error, f.delay_us = device, error, delay_us
        f.function = function.encode()

    def answer(self, function: str, number: int, *, device: int = -1) -> None:
        """Make `function`, or a part such as `nvmlDeviceGetMemoryInfo_v2.used`, answer `number` instead of the right one."""
        a = next(a for a in self.state.answer if not a.function)
        a.device, a.number = device, number
        a.function = function.encode()

    def ghost(
        self, count: int = 1, *, device: int | None = None, mib: int | None = None, flags: int = 0, pid: int = 4100000
    ) -> None:
        """Add processes that hold memory but do not exist, numbered from `pid`, on all devices or on `device`."""
        rng = random.Random(1)
        for k in range(count):
            where = k % self.state.devices if device is None else device
            self.process(pid + k, {where: mib or rng.randrange(300, 3000)}, sm=rng.randrange(90), flags=GHOST | flags)

    def process(self, pid: int, mib: Mapping[int, int], *, sm: int = 40, flags: int = 0) -> None:
        """Add a process that holds the MiB in `mib` by device; without the flag GHOST it is listed only if it exists."""
        known = self.state.proc[: self.state.procs]
        p = next((p for p in known if p.pid == pid), None) or next((p for p in known if not p.pid), None)
        self._fill(p or self._new_process(), pid, mib, sm, flags)

    def crowd(self, pids: Sequence[int], *, mib: int = 10, flags: int = GHOST) -> None:
        """Replace all processes by these, which hold `mib` each on one device after the other."""
        self.clear("processes")
        for number, pid in enumerate(pids):
            self._fill(self._new_process(), pid, {number % self.state.devices: mib}, 1, flags)

    def _new_process(self) -> Process:
        self.state.procs += 1
        new: Process = self.state.proc[self.state.procs - 1]
        return new

    def _fill(self, p: Process, pid: int, mib: Mapping[int, int], sm: int, flags: int) -> None:
        for device, size in mib.items():
            p.used[device], p.sm[device] = size * MIB, sm
        p.flags, p.pid = flags, pid

    def clear(self, *what: str) -> None:
        """Delete faults, answers, processes or calls; all of them if none is named."""
        state = self.state
        sizes = {
            "faults": (state.fault, ctypes.sizeof(state.fault)),
            "answers": (state.answer, ctypes.sizeof(state.answer)),
            "processes": (state.proc, ctypes.sizeof(Process) * state.procs),  # others would only fill the file's hole
            "calls": (state.call, ctypes.sizeof(state.call)),
        }
        for name in what or sizes:
            part, size = sizes[name]
            ctypes.memset(ctypes.byref(part), 0, size)
        if "processes" in (what or sizes):
            state.procs = 0

    def calls(self) -> dict[str, int]:
        """How often each NVML function was called since calls were last cleared."""
        return {call.function.decode(): call.count for call in self.state.call if call.count}

    def environment_of(self, library_folder: Path) -> dict[str, str]:
        """The environment variables with which another process finds these devices."""
        paths = [str(library_folder), os.environ.get("LD_LIBRARY_PATH", "")]
        return {"FAKEGPU_STATE": str(self.path), "LD_LIBRARY_PATH": ":".join(path for path in paths if path)}


def _work(d: Device, place: int) -> None:
    """What GPM says of a device that trains a model in bfloat16, as on a real board."""
    d.gpm_graphics, d.gpm_sm, d.gpm_occupancy = 980, 890 - 30 * (place % 5), 350
    d.gpm_integer, d.gpm_tensor, d.gpm_dram = 160, 380 - 20 * (place % 5), 410
    d.gpm_fp64, d.gpm_fp32, d.gpm_fp16 = 0, 30, 1
    d.gpm_pcie_tx, d.gpm_pcie_rx, d.gpm_nvlink_rx, d.gpm_nvlink_tx = 1400, 2100, 40_000, 41_000


def _uuid(kind: bytes, rng: random.Random) -> bytes:
    return kind + b"-%08x-%04x-%04x-%04x-%012x" % tuple(rng.getrandbits(bits) for bits in (32, 16, 16, 16, 48))


def build(folder: Path, torch_python: str | None = None) -> None:
    """Compile the libraries older than their sources into `folder`; several processes may call this at once.

    `torch_python` is an interpreter with a CUDA build of PyTorch; with it the fake CUDA runtime is built too.
    """
    if shutil.which("cc") is None:
        message = "The fake GPUs need a C compiler that answers to `cc`: install gcc or clang."
        raise RuntimeError(message)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _compile(folder / "libnvidia-ml.so.1", ["nvml.c", "state.c"], ["-lm", "-Wl,-Bsymbolic"])
        _compile(folder / "libfaults.so", ["faults.c"], ["-ldl", "-lpthread"])
        (folder / "stubs").mkdir(exist_ok=True)
        _compile(folder / "stubs/libnvidia-ml.so.1", ["stub.c"], [])
        if torch_python:
            include = [f"-I{path}" for path in _cuda_headers(torch_python)]
            _compile(folder / "libcuda.so.1", ["cuda.c", "kept.c", "streams.c", "stubs.c", "nccl.c", "state.c"], ["-ldl", "-lpthread", *include])
            if not (folder / "libcuda.so").exists():  # for a linker: Triton's, with TRITON_LIBCUDA_PATH
                (folder / "libcuda.so").symlink_to("libcuda.so.1")


def without(library: Path, function: str, copy: Path) -> Path:
    """A copy of the fake NVML in which the loader does not find `function`, as in an older driver's library.

    The function is renamed in the symbol table. The copy is a separate library with its own state (`fg_use`).
    """
    whole, name = library.read_bytes(), b"\0" + function.encode() + b"\0"
    if name not in whole:
        message = f"The fake NVML has no function {function}."
        raise ValueError(message)
    copy.write_bytes(whole.replace(name, b"\0" + b"-" + name[2:]))
    return copy


def _compile(library: Path, sources: Iterable[str], flags: Iterable[str]) -> None:
    newest = max(path.stat().st_mtime for path in HERE.glob("*.[ch]"))
    if library.exists() and library.stat().st_mtime > newest:
        return
    fresh = library.with_suffix(".new")
    name = f"-Wl,-soname,{library.name}"
    files = [str(HERE / source) for source in sources]
    subprocess.run(["cc", "-O2", "-w", "-fPIC", "-shared", "-o", str(fresh), name, *files, *flags], check=True)
    fresh.replace(library)


@lru_cache
def _cuda_headers(python: str) -> list[Path]:
    """The folders of CUDA headers in the packages that a CUDA build of PyTorch depends on, which lie beside it."""
    code = "import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec('torch').origin).parents[1])"
    site = Path(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip())
    names = ("cu13/include", "cuda_runtime/include", "cuda_nvcc/include")
    return [*(site / "nvidia" / name for name in names), site / "triton/backends/nvidia/include"]
