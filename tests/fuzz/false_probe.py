"""A program that pretends to have a probe: a real process, with a socket on which anything at all is sent for it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from gputui.model.attached.allocator import CallSite, PrivatePool
from gputui.model.attached.target import (
    ActionCounters,
    ActionName,
    ActionResult,
    Greeting,
    Look,
    Mark,
    Statistics,
    TorchDevice,
)
from gputui.model.attached.trace import ACTIONS, ALLOC, FREE_COMPLETED, FREE_REQUESTED, RecordedTraces, RecordingCost
from gputui.protocol import frames, places
from gputui.sources.files.recording.reader import Recording
from gputui.sources.files.recording.records import plain
from gputui.sources.files.recording.shipped import SHIPPED
from gputui.sources.probe.messages import _Step, _Traces
from tests.fuzz.mutations import Mutator

KINDS: dict[str, Any] = {
    "greeting": Greeting,
    "statistics": Statistics,
    "look": Look,
    "mark": Mark,
    "action_result": ActionResult,
    "step": RecordedTraces,
}
SEGMENTS = 24
"""The segments of the looks that are mutated: few, so that a mutation often meets another."""

MESSAGES = 60
"""The messages of a conversation that the viewer does not end before."""

_EVENTS = (ALLOC, FREE_REQUESTED, FREE_COMPLETED, ALLOC)
"""What happened to each block of a recorded step."""

_LARGEST = 1 << 46
"""With larger sizes, events would add up to more than any machine has, and the step would be refused."""
_COLUMNS = ("actions", "addresses", "sizes_bytes", "streams", "times_us", "stacks")

PAUSES_S = (0.0, 0.0, 0.001, 0.02, 0.1)
"""Between two messages: from a flood to what a real probe does."""

CONSISTENT_SHARE = 0.7
"""The share of mutated maps whose blocks and segments are put next to each other again: others are not shown."""

REFUSED_SHARE = 0.02
"""The share of messages that end the conversation, so that most conversations have some tens of messages."""


def true_messages() -> dict[str, dict[str, Any]]:
    """One message of each type, as a probe sends it, by type: those of the recorded job with two devices."""
    recording = Recording(SHIPPED)
    (pid, greeting), *_ = recording.greetings.items()
    seen = recording.look(pid, 25)
    assert seen is not None
    look = _with_every_feature(plain(seen[0]))
    recording.close()
    devices = look["statistics"]
    counters = ActionCounters(0, 1 << 30, 1 << 29, 1 << 28, 1 << 28)
    return {
        "greeting": {
            **plain(greeting),
            "rank": 0,
            "world_size": 2,
            "is_cuda_initialized": True,
            "devices": [asdict(TorchDevice(index, f"GPU-{index}")) for index in range(2)],
            "actions": [name.value for name in ActionName],
        },
        "statistics": {"time": look["time"], "devices": devices, "pinned_bytes": 1 << 20, "problems": ["a problem"]},
        "look": look,
        "mark": {"time": look["time"], "label": "after forward"},
        "action_result": {
            **plain(ActionResult(look["time"], ActionName.EMPTY_CACHE, 0.1, (counters,), collected=3)),
            "map": look["map"],
        },
        "step": {**look, **_true_step(look)},
    }


def _true_step(look: dict[str, Any]) -> dict[str, Any]:
    """The fields of a recorded step beside its look: each block was allocated, and some were there before as well."""
    traces = []
    for device in range(2):
        blocks = [block for part in look["map"]["segments"] if part["device"] == device for block in part["blocks"]]
        events = [(kind, block, number) for number, block in enumerate(blocks) for kind in _EVENTS]
        columns = {
            "actions": [kind for kind, _, _ in events],
            "addresses": [block["address"] for _, block, _ in events],
            "sizes_bytes": [block["size_bytes"] for _, block, _ in events],
            "streams": [0] * len(events),
            "times_us": [1_763_640_000_000_000 + 10 * place for place in range(len(events))],
            "stacks": [number % 3 - 1 for _, _, number in events],
            "pools": [number % 2 for _, _, number in events],
            "pool_table": [[0, 0], [0, 1]],
        }
        traces.append({"device": device, "count": len(events), **columns})
    sites = [plain(CallSite("/home/ana/train.py", line, "forward")) for line in range(5)]
    cost = plain(RecordingCost(1.0, 1000, 4.0, 4000, 20.0))
    return {"traces": traces, "frames": sites, "stacks": [[0, 1], [2, 3, 4]], "recording": cost, "max_events": 16_000}


def mutated(mutator: Mutator, kind: str, message: dict[str, Any], random: Random) -> dict[str, Any]:
    """A true message with other values that the decoder accepts."""
    if kind == "step":
        look, step = mutator.accepted(Look, message), mutator.accepted(_Step, message)
        changed = {**look, **step, **_with_places(mutator.accepted(_Traces, message)), "type": "step"}
    elif kind == "traces":
        changed = {**_with_places(mutator.accepted(_Traces, message)), "type": "traces"}
    else:
        changed = mutator.accepted(KINDS[kind], message)
    if changed.get("map") and random.random() < CONSISTENT_SHARE:
        make_consistent(changed["map"])
    return changed


def _with_places(step: dict[str, Any]) -> dict[str, Any]:
    """With columns of equal lengths, known kinds of events, and stacks and frames that are there."""
    frames_there, stacks_there = len(step["frames"]), len(step["stacks"])
    step["stacks"] = [[number % frames_there for number in stack] if frames_there else [] for stack in step["stacks"]]
    for trace in step["traces"]:
        columns = (*_COLUMNS, "pools") if trace["pool_table"] else _COLUMNS
        length = min(len(trace[name]) for name in columns)
        for name in columns:
            trace[name] = [abs(value) % _LARGEST for value in trace[name][:length]]
        trace["actions"] = [action % len(ACTIONS) for action in trace["actions"]]
        trace["stacks"] = [stack % (stacks_there + 1) - 1 for stack in trace["stacks"]]
        pools_there = len(trace["pool_table"])
        trace["pools"] = [pool % (pools_there + 1) - 1 for pool in trace["pools"]] if pools_there else []
    return step


def _with_every_feature(look: dict[str, Any]) -> dict[str, Any]:
    """The look cut down to some segments, half of them on a second device, with a private pool and call sites."""
    segments = look["map"]["segments"] = look["map"]["segments"][:SEGMENTS]
    for number, segment in enumerate(segments):
        segment["blocks"] = segment["blocks"][:12]
        segment["size_bytes"] = sum(block["size_bytes"] for block in segment["blocks"])
        segment["device"] = number % 2
        segment["is_expandable"] = number % 5 == 0
        segment["pool_id"] = [0, 1] if number % 7 == 0 else [0, 0]
        for block in segment["blocks"]:
            block["site"] = plain(CallSite("/home/ana/train.py", number, "forward"))
    look["map"]["private_pools"] = [plain(PrivatePool(0, (0, 1), is_freeable=False, holder="torch.cuda.CUDAGraph"))]
    device_of = {block["address"]: part["device"] for part in segments for block in part["blocks"]}
    storages = [storage for storage in look["inventory"]["storages"] if storage["address"] in device_of]
    for storage in storages:
        storage["device"] = device_of[storage["address"]]
    look["inventory"]["storages"] = [*storages, {**storages[0], "device": -1, "is_pinned": True}]
    look["statistics"] = [{**look["statistics"][0], "device": device} for device in range(2)]
    return look


def make_consistent(layout: dict[str, Any]) -> None:
    """Give a mutated map the addresses, sizes and settings that an allocator could have, in place."""
    settings = layout["settings"]
    settings["large_page_bytes"] = abs(settings["large_page_bytes"]) or 1
    settings["roundup_divisions"] = (settings["roundup_divisions"] * 16)[:16]
    layout["segments"] = [dict(segment) for segment in layout["segments"] if segment["blocks"]]
    address = 1 << 40
    for segment in layout["segments"]:
        segment["address"] = address
        segment["blocks"] = [dict(block) for block in segment["blocks"]]
        for block in segment["blocks"]:
            block["address"] = address
            block["size_bytes"] = min(abs(block["size_bytes"]), 1 << 45) or 1
            block["requested_bytes"] = min(abs(block["requested_bytes"]), block["size_bytes"])
            address += block["size_bytes"]
        segment["size_bytes"] = address - segment["address"]


class FalseProbe:
    """A sleeping process in whose name mutated messages are sent, until `close`.

    `folder` is the XDG_RUNTIME_DIR of that process. `sent` counts messages by type; `conversations` counts viewers.
    """

    def __init__(self, folder: Path, random: Random) -> None:
        self._random = random
        self._mutator = Mutator(random)
        self._true = true_messages()
        self.sent: Counter[str] = Counter()
        self.conversations = 0
        self._process = subprocess.Popen(["sleep", "36000"], env={**os.environ, "XDG_RUNTIME_DIR": str(folder)})
        self.pid = self._process.pid
        sockets = folder / "gputui"
        sockets.mkdir(mode=0o700, exist_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(sockets / places.socket_name(self.pid, places.started_at(self.pid) or 0)))
        self._listener.listen()
        self._is_closed = False
        self.done = threading.Event()
        """Set once every message of a conversation has been sent, or the viewer has closed it."""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the process and the conversation."""
        self._is_closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._process.kill()
        self._process.wait()
        self._thread.join()

    def _serve(self) -> None:
        while not self._is_closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.conversations += 1
            with connection, suppress(OSError):
                self._talk(connection)
            self.done.set()

    def _talk(self, connection: socket.socket) -> None:
        """Answer the greeting truly, or else no conversation begins, and then send what nobody asked for."""
        self._send(connection, frames.encode({"type": "hello", "protocol": frames.VERSION}))
        self._send(connection, self._frame("greeting"))
        connection.settimeout(0.0)
        for _ in range(MESSAGES):
            self._drain(connection)
            time.sleep(self._random.choice(PAUSES_S))
            self._send(connection, self._next())
        self.done.set()
        connection.settimeout(0.2)
        while not self._is_closed:
            with suppress(TimeoutError):
                if not connection.recv(65536):
                    return

    def _next(self) -> bytes:
        kind = self._random.choice(
            ("look", "look", "look", "statistics", "statistics", "mark", "greeting", "action_result", "step", "step")
        )
        if self._random.random() < REFUSED_SHARE:
            self.sent["refused"] += 1
            return self._mutator.refused({"type": kind, **self._true[kind]})
        return self._frame(kind)

    def _frame(self, kind: str) -> bytes:
        self.sent[kind] += 1
        message = mutated(self._mutator, kind, {"type": kind, **self._true[kind]}, self._random)
        return frames.frame(json.dumps(message).encode())

    def _send(self, connection: socket.socket, data: bytes) -> None:
        """Send in pieces, and only as fast as the viewer reads."""
        connection.settimeout(10.0)
        piece = self._random.choice((7, 4096, len(data))) if len(data) < 10_000 else len(data)
        for start in range(0, len(data), piece):
            connection.sendall(data[start : start + piece])

    def _drain(self, connection: socket.socket) -> None:
        connection.settimeout(0.0)
        with suppress(BlockingIOError):
            connection.recv(65536)
