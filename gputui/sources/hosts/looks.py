"""Makes parts of a fleet from a node's once document, and refuses a document whose form is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gputui.explain.fleet.sums import of_devices
from gputui.model.decode import DecodeError, decode
from gputui.model.fleet.parts import NOT_EXPORTED, FleetDevice, Holding, JobName, Node, Place, Readings
from gputui.model.machine.finding import MachineFinding
from gputui.model.machine.owner import Owner
from gputui.model.machine.process import Identity
from gputui.model.machine.programs import program_of
from gputui.model.printable import printable
from gputui.model.reading import Reading
from gputui.model.told import NodeLook
from gputui.model.weight import Weight

SCHEMA = "gputui.once/1"
TEXT_AT_MOST = 2000


class WrongDocumentError(Exception):
    """The text is no once document of this version; `schema` is the one that it names, "" if none."""

    def __init__(self, schema: str = "") -> None:
        super().__init__(schema)
        self.schema = schema


def look_of(line: bytes, place: Place) -> NodeLook:
    """The look in a document. Raises `WrongDocumentError`."""
    try:
        document = json.loads(line)
        if document["schema"] != SCHEMA:
            raise WrongDocumentError(_text(document["schema"]))
        devices = tuple(_device(part, place) for part in document["devices"])
        holdings = tuple(_holdings(document, place))
        findings = tuple(_finding(part, place) for part in document["findings"])
        problems = [_text(problem) for problem in document["problems"]]
    except (DecodeError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
        raise WrongDocumentError from None
    gpus = [device for device in devices if not device.is_instance]
    node = Node(place, len(gpus), of_devices(gpus))
    return NodeLook(node, devices, holdings, findings, "" if gpus else next(iter(problems), "It has no GPU."))


def _device(part: Mapping[str, Any], place: Place) -> FleetDevice:
    profile = part["profile"] or {}
    readings = Readings(
        _number(part, "gpu_utilization_percent"),
        _number(profile, "sm_active_percent"),
        _number(profile, "tensor_percent"),
        _number(part["memory"], "used_bytes"),
        _number(part["memory"], "total_bytes"),
        _number(part, "power_w"),
        _number(part, "power_limit_w"),
        _number(part, "temperature_c"),
    )
    name, is_instance = _text(part["name"]), part["mig"] is not None
    return FleetDevice(place, _uuid(part, place), _label(part), name, readings, part["lost"] is True, is_instance)


def _label(part: Mapping[str, Any]) -> str:
    mig = part["mig"]
    numbers = (mig["parent"], mig["gpu_instance"]) if mig else (part["index"],)
    return ".".join(str(decode(int, number)) for number in numbers)


def _uuid(part: Mapping[str, Any], place: Place) -> str:
    return _text(part["uuid"] or f"{place.node} {_label(part)}")


def _holdings(document: Mapping[str, Any], place: Place) -> Iterator[Holding]:
    for part in document["devices"]:
        uuid, label = _uuid(part, place), _label(part)
        for process in part["processes"]:
            if process["pid"]:
                command, torch = _text(process["command"] or ""), process.get("torch") or {}
                yield Holding(
                    place,
                    decode(int, process["pid"]),
                    uuid,
                    label,
                    _text(process["user"] or ""),
                    program_of(command).split(" ", 1)[0],
                    _job(process),
                    _whole(process.get("rank")),
                    _whole(process.get("world_size")),
                    _number(process, "used_bytes"),
                    _number(process, "sm_percent"),
                    _number(torch, "reserved_bytes"),
                    _number(torch, "allocated_bytes"),
                )


def _job(process: Mapping[str, Any]) -> JobName | None:
    """The job of a process; ranks on several nodes without a Slurm job are one by their rendezvous address."""
    told = process["owner"] or {}
    known = {name: _text(told[name]) for name in ("job", "namespace", "pod", "container", "unit", "ray_job")
             if told.get(name)}  # fmt: skip
    rendezvous = process.get("rendezvous")
    if rendezvous and not known.get("job") and (_whole(process.get("world_size")) or 0) > 1:
        return JobName("", "PyTorch job", _text(rendezvous))
    group = Owner(**known).group
    return JobName("", *group) if group else None


def _finding(part: Mapping[str, Any], place: Place) -> MachineFinding:
    """A finding of the node's gputui, whose title begins with the place: "GPU 3: ..."."""
    where, _, title = _text(part["title"]).partition(": ")
    pid = _whole(part["pid"])
    return MachineFinding(
        kind=_text(part["kind"]),
        weight=Weight(part["weight"]),
        where=f"{place.node} {where}",
        title=title,
        evidence=tuple(_text(sentence) for sentence in part["evidence"]),
        remedy=_text(part["remedy"]),
        since=decode(float, part["since"]),
        device=f"{place.node} {part['device']}",
        process=None if pid is None else Identity(pid, None),
        about=f"{place.node} {title}",
        node=place,
    )


def _number(part: Mapping[str, Any], name: str) -> Reading[float]:
    """A reading, absent if it is null or missing; raises DecodeError for what no reading can be, such as NaN."""
    value = part.get(name)
    if value is None:
        return NOT_EXPORTED
    return float(decode(int, value)) if name.endswith("_bytes") else decode(float, value)


def _whole(value: object) -> int | None:
    return None if value is None else decode(int, value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return printable(value[:TEXT_AT_MOST])
