"""Everything about one device: graphs of its history, all readings in columns, and sentences about its state."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gputui.model.device import THROTTLE_SENTENCES, Device
from gputui.model.history import SPANS_S, History
from gputui.model.reading import Absent, Reading
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.devices import label, memory_of
from gputui.ui.drawing.graphs import Graph, draw_graphs, graph_width
from gputui.ui.drawing.line import Line, fit, join, wrap
from gputui.units import format_bytes, format_rate

Fact = tuple[str, Callable[[Device], Reading[str]]]


def _reading(field: str, shown: Callable[..., str] = str) -> Callable[[Device], Reading[str]]:
    def read(device: Device) -> Reading[str]:
        value = getattr(device, field)
        return value if isinstance(value, Absent) else shown(value)

    return read


def _memory(part: str) -> Callable[[Device], Reading[str]]:
    def read(device: Device) -> Reading[str]:
        if isinstance(device.memory, Absent):
            return device.memory
        value = getattr(device.memory, part)
        return Absent("contained in used (old driver)") if value is None else format_bytes(value)

    return read


_NOT_TOLD = Absent("not told by the driver")


def _energy(joules: float) -> str:
    return f"{joules / 3_600_000:,.1f} kWh"


FACTS: tuple[tuple[str, tuple[Fact, ...]], ...] = (
    (
        "Memory",
        (
            ("total", _memory("total_bytes")),
            ("used", _memory("used_bytes")),
            ("free", _memory("free_bytes")),
            ("driver reserved", _memory("driver_reserved_bytes")),
            (
                "BAR1",
                _reading("bar1", lambda bar: f"{format_bytes(bar.used_bytes)} of {format_bytes(bar.total_bytes)}"),
            ),
        ),
    ),
    (
        "Work",
        (
            ("GPU utilisation", _reading("gpu_utilization_percent", "{}%".format)),
            ("memory bus", _reading("memory_utilization_percent", "{}%".format)),
            ("encoder", _reading("encoder_percent", "{}%".format)),
            ("decoder", _reading("decoder_percent", "{}%".format)),
            ("performance state", _reading("pstate")),
        ),
    ),
    (
        "Power and heat",
        (
            ("power", _reading("power_w", "{:.0f} W".format)),
            ("power limit", _reading("power_limit_w", "{:.0f} W".format)),
            ("energy", _reading("energy_j", _energy)),
            ("temperature", _reading("temperature_c", "{} °C".format)),
            ("memory temperature", _reading("memory_temperature_c", "{} °C".format)),
            ("slows down at", _reading("slowdown_temperature_c", "{} °C".format)),
            ("shuts down at", _reading("shutdown_temperature_c", "{} °C".format)),
            ("fan", _reading("fan_percent", "{}%".format)),
        ),
    ),
    (
        "Clocks",
        (
            ("SM", _reading("sm_clock_mhz", "{} MHz".format)),
            ("SM at most", _reading("max_sm_clock_mhz", "{} MHz".format)),
            ("memory", _reading("memory_clock_mhz", "{} MHz".format)),
            ("memory at most", _reading("max_memory_clock_mhz", "{} MHz".format)),
        ),
    ),
    (
        "Links",
        (
            ("PCIe", _reading("pcie", lambda link: f"gen {link.generation} x{link.width}")),
            ("PCIe at most", _reading("pcie", lambda link: f"gen {link.max_generation} x{link.max_width}")),
            ("PCIe receives", _reading("pcie_rx_bytes_per_s", format_rate)),
            ("PCIe sends", _reading("pcie_tx_bytes_per_s", format_rate)),
            ("NVLink", _reading("nvlinks", lambda links: f"{links.active} of {links.total} active")),
            ("NVLink receives", _reading("nvlinks", lambda links: _rate(links.rx_bytes_per_s))),
            ("NVLink sends", _reading("nvlinks", lambda links: _rate(links.tx_bytes_per_s))),
        ),
    ),
    (
        "Health",
        (
            ("ECC uncorrected", _reading("ecc_uncorrected")),
            ("ECC corrected", _reading("ecc_corrected")),
            ("remapped rows", _reading("remapped_rows", lambda rows: _rows(rows.correctable, rows.uncorrectable))),
            ("remap pending", _reading("remapped_rows", lambda rows: "yes: reset the GPU" if rows.pending else "no")),
            ("remap failed", _reading("remapped_rows", lambda rows: "yes: replace the GPU" if rows.failed else "no")),
            ("retired pages", _reading("retired_pages")),
        ),
    ),
    (
        "Identity",
        (
            ("UUID", lambda device: device.uuid or _NOT_TOLD),
            ("bus", lambda device: device.bus_id or _NOT_TOLD),
            ("serial", _reading("serial")),
            ("VBIOS", _reading("vbios")),
            ("architecture", _reading("architecture")),
            ("compute capability", _reading("compute_capability")),
            ("compute mode", _reading("compute_mode")),
            ("persistence mode", _reading("persistence_mode")),
            ("display", _reading("display_active")),
            ("MIG", _reading("mig_mode")),
        ),
    ),
)
"""All readings of the device screen, by group."""


def _rate(rate: float | None) -> str:
    return "not told" if rate is None else format_rate(rate)


def _rows(correctable: int, uncorrectable: int) -> str:
    return f"{correctable} correctable, {uncorrectable} not"


CLOCKED = (
    ("SM clock", "sm_clock_mhz", "max_sm_clock_mhz", "{:.0f} MHz"),
    ("Power", "power_w", "power_limit_w", "{:.0f} W"),
)
"""Graphs whose top is another reading."""


def draw_device_page(
    device: Device, history: History, zoom: int, size: tuple[int, int], appearance: Appearance
) -> list[Line]:
    """The page for a screen of `size` (width, height); it may be longer than the screen."""
    width, height = size
    head = f"Device {label(device)}  {device.name}"
    lines: list[Line] = [((fit(head, width), "title"),)]
    if device.lost:
        lines += wrap(f"{appearance.glyphs.alarm} {device.lost.sentence}", width, "alarm")
    lines += _sentences(device, width)
    graphs = _graphs(device, history, zoom, width)
    rows = -(-len(graphs) * (graph_width(width, len(graphs)) + 2) // (width + 2))
    tall = max(2, min(8, (height - 12) // max(1, rows) - 1))
    lines += draw_graphs(graphs, width, tall, appearance)
    span = SPANS_S[zoom]
    lines.append(((fit(f"each cell {span:g} s; z zooms", width, ">"), "dim"),))
    return lines + _facts(device, width, appearance)


def _graphs(device: Device, history: History, zoom: int, width: int) -> list[Graph]:
    count = graph_width(width, 6)

    def points(name: str) -> list[float | None]:
        return history.last(device.key, name, count, zoom)

    memory = memory_of(device)
    total = memory.total_bytes if memory else 0
    used = f"{format_bytes(memory.used_bytes)} of {format_bytes(total)}" if memory else _words(device.memory)
    heat = device.slowdown_temperature_c
    graphs = [
        Graph("GPU", _shown(device.gpu_utilization_percent, "{}%"), points("gpu_utilization_percent"), 100),
        Graph("Memory", used, points("used_bytes"), total, "accent"),
    ]
    for title, field, limit, form in CLOCKED:
        top = getattr(device, limit)
        high = max((point for point in points(field) if point is not None), default=1.0)
        graphs.append(
            Graph(title, _shown(getattr(device, field), form), points(field), high if isinstance(top, Absent) else top)
        )
    temperature = _shown(device.temperature_c, "{} °C")
    graphs.append(Graph("Temperature", temperature, points("temperature_c"), 100 if isinstance(heat, Absent) else heat))
    receives = points("pcie_rx_bytes_per_s")
    high = max((point for point in receives if point is not None), default=1.0)
    graphs.append(Graph("PCIe receives", _words_of_rate(device.pcie_rx_bytes_per_s), receives, high or 1.0, "accent"))
    return graphs


def _shown(reading: Reading[float], form: str) -> str:
    return _words(reading) if isinstance(reading, Absent) else form.format(reading)


def _words(reading: Reading[object]) -> str:
    return reading.reason if isinstance(reading, Absent) else str(reading)


def _words_of_rate(reading: Reading[int]) -> str:
    return reading.reason if isinstance(reading, Absent) else format_rate(reading)


_ECC = (
    "Memory errors that ECC could not correct since the driver was loaded: {}. `dmesg | grep -i xid` says when; if "
    "they go on, stop the GPU's processes and reset it, and have the board checked if that does not help."
)


def _sentences(device: Device, width: int) -> list[Line]:
    """Whatever is wrong, then what slows it down, in words."""
    sentences = [(problem, "poor") for problem in device.problems]
    if not isinstance(device.ecc_uncorrected, Absent) and device.ecc_uncorrected:
        sentences.append((_ECC.format(device.ecc_uncorrected), "poor"))
    if not isinstance(device.throttle_reasons, Absent):
        sentences += [
            (THROTTLE_SENTENCES.get(reason, reason), "dim" if reason == "gpu_idle" else "fair")
            for reason in device.throttle_reasons
        ]
    return [line for sentence, role in sentences for line in wrap(sentence, width, role)]


def _facts(device: Device, width: int, appearance: Appearance) -> list[Line]:
    """Groups of readings flowed into columns, a group never torn apart."""
    abreast = max(1, min(4, width // 38))
    each = (width - 2 * (abreast - 1)) // abreast
    blocks = [_group(title, facts, device, each, appearance) for title, facts in FACTS]
    columns: list[list[Line]] = [[] for _ in range(abreast)]
    for block in blocks:
        shortest = min(columns, key=len)
        shortest += block
    height = max(len(column) for column in columns)
    blank: Line = ((" " * each, "plain"),)
    padded = [column + [blank] * (height - len(column)) for column in columns]
    return [_row([column[row] for column in padded]) for row in range(height)]


def _row(parts: Iterable[Line]) -> Line:
    pieces = [piece for part in parts for piece in (*part, ("  ", "plain"))]
    return join(pieces[:-1])


def _group(title: str, facts: tuple[Fact, ...], device: Device, width: int, appearance: Appearance) -> list[Line]:
    lines: list[Line] = [((fit(f"{title} ".ljust(width, appearance.glyphs.rule), width), "title"),)]
    for name, read in facts:
        reading = read(device)
        shown, role = (reading.reason, "dim") if isinstance(reading, Absent) else (reading, "plain")
        shown = shown.replace("°", "") if appearance.is_ascii else shown
        lines.append(
            join(((fit(f"{name} ", 19), "dim"), (fit(shown, width - 19, ellipsis=appearance.glyphs.ellipsis), role)))
        )
    return [*lines, ((" " * width, "plain"),)]
