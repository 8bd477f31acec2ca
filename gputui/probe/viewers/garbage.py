"""Answers a viewer that asks what `gc.collect()` would free: with a part of all references, or with a proof."""

from __future__ import annotations

import sys
from binascii import b2a_base64
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from gputui.probe.guards.originals import wall_clock
from gputui.probe.looks.looks import IN_BACKWARD_S, uncut_ms
from gputui.probe.looks.messages import encode_in_pieces, frame
from gputui.probe.looks.stops import undisturbed
from gputui.probe.main_thread import process
from gputui.probe.main_thread.calls import MainThread, MainThreadCall
from gputui.probe.pace.budget import LARGEST_PART, LISTING_MS, RESERVE
from gputui.probe.pace.meter import Meter
from gputui.probe.viewers.actions import or_failure

if TYPE_CHECKING:
    from gputui.probe.garbage.references import Part, Place
    from gputui.probe.objects.torch_types import Torch
    from gputui.probe.viewers.connection import Viewer

BUSY = "Another viewer is asking for it."
_NO_TORCH = "The program has not imported PyTorch yet."
_INTERRUPTED = "A signal handler of the program interrupted it."
_OTHERS_RUN = "This Python runs other threads beside a look."
_TOO_LONG = "To list all Python objects would stop the program for about {:.0f} ms."
_FREEING = "The program was freeing an object."
_CHANGING = "A backward pass was under way, or a graph was too long for one stop."


class GarbageRequest(NamedTuple):
    """Asks for a part of the references from `place` on (None: the first) or, unless `cycles` is None, for a proof.

    `cycles` and `nodes` are as in `proof.proven`, each object by its address and that of its type.
    """

    place: tuple[int, int, int, int] | None
    cycles: dict[tuple[int, int], int] | None
    nodes: list[tuple[int, int]]
    wait_s: float
    pause_ms: float


class GarbageReader:
    """Answers one request at a time. Everything but the reading happens in the probe's thread."""

    def __init__(self, main_thread: MainThread) -> None:
        self._call: MainThreadCall[dict[str, Any]] = MainThreadCall(main_thread)
        self._request: GarbageRequest | None = None
        self._viewer: Viewer | None = None

    @property
    def deadline(self) -> float | None:
        """When (`perf_counter`) to ask `finished` again at the latest, None if nothing was asked for."""
        return self._call.deadline

    def ask(self, viewer: Viewer, request: GarbageRequest) -> None:
        """Begin with a viewer's request, unless another request is under way."""
        if self._request is not None:
            viewer.send(not_known(request, BUSY))
            return
        self._viewer = viewer
        self._begin(request)

    def serve(
        self,
        viewers: list[Viewer],
        attempt: Callable[[Viewer, Callable[[Viewer], None]], None],
        account: Callable[[float], None],
    ) -> None:
        """Send the answer once it is there, and account for what it has cost, in seconds; drop it if nobody waits."""
        if self._request is not None and self._viewer not in viewers:
            self.leave()
        if (answer := self._finished()) is not None and self._viewer is not None:
            pieces, cost_s = answer
            account(cost_s)
            attempt(self._viewer, lambda receiver: receiver.connection.send(*pieces))

    def _begin(self, request: GarbageRequest) -> None:
        """Read in the main thread or, if that is absent, in the probe's own."""
        self._request = request
        if reason := _why_not(request):
            self._call.settle(not_known(request, reason))
            return
        from gputui.probe.garbage import proof, references  # noqa: F401 (the main thread need not wait for imports)

        failed = partial(_failed, request)
        self._call.begin(partial(_take, request), request.wait_s, failed, in_backward_s=IN_BACKWARD_S)

    def _finished(self) -> tuple[list[bytes], float] | None:
        """The answer as the pieces of a frame once it is there, and what it has cost in seconds."""
        request = self._request
        answer = self._call.finished(partial(_take, request, in_turn=True)) if request else None
        if answer is None:
            return None
        self._request = None
        cost, part = answer.pop("cost"), answer.pop("part", None)
        if part is not None:
            answer.update(_encoded(part), stop_ms=cost["pause_ms"])
        return frame(encode_in_pieces(answer)), max(cost.values(), default=0.0) / 1000

    def leave(self) -> None:
        """Drop what is under way: nobody waits for it."""
        self._call.leave()
        self._request = self._viewer = None


def not_known(request: GarbageRequest, reason: str) -> dict[str, Any]:
    """The answer where nothing was read, and the fields to fill in otherwise."""
    if request.cycles is None:
        return {"type": "references", "reason": reason, "is_broken": False, "next": None, "stop_ms": 0.0, "cost": {}}
    return {"type": "garbage", "time": wall_clock(), "groups": [], "reason": reason, "cost": {}}


def _why_not(request: GarbageRequest) -> str:
    if process.loaded_torch() is None:
        return _NO_TORCH
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return _OTHERS_RUN
    list_ms = sys.getallocatedblocks() * LISTING_MS
    return _TOO_LONG.format(list_ms) if list_ms > uncut_ms(request.pause_ms) * LARGEST_PART else ""


def _failed(request: GarbageRequest, failure: str) -> dict[str, Any]:
    return not_known(request, failure or _INTERRUPTED)


def _take(request: GarbageRequest, *, in_turn: bool = False) -> dict[str, Any]:
    """One stop, in the calling thread."""
    answer = not_known(request, "")
    torch, read = process.loaded_torch(), _read if request.cycles is None else _prove
    if torch is None:
        return not_known(request, _NO_TORCH)

    def attempt() -> None:
        answer["reason"] = or_failure(partial(read, torch, request, answer), str)

    answer["cost"] = undisturbed(attempt, uncut_ms(request.pause_ms), in_turn=in_turn)
    return answer


def _read(torch: Torch, request: GarbageRequest, answer: dict[str, Any]) -> str:
    from gputui.probe.garbage.references import Part, Place

    part = answer["part"] = Part()
    place = Place(*request.place) if request.place else None
    part.read(torch, place, request.pause_ms * LARGEST_PART, uncut_ms(request.pause_ms) * (1 - RESERVE))
    return ""


def _prove(torch: Torch, request: GarbageRequest, answer: dict[str, Any]) -> str:
    from gputui.probe.garbage.proof import proven
    from gputui.probe.main_thread.isolation import isolated
    from gputui.probe.objects.handles import Handle
    from gputui.probe.objects.threads import threads_now

    meter = Meter(uncut_ms(request.pause_ms) / 1000)
    if threads_now().are_freeing(meter) is not False:
        return _FREEING
    cycles = {Handle(*at): number for at, number in (request.cycles or {}).items()}
    nodes = [Handle(*at) for at in request.nodes]
    answer["groups"], is_whole = isolated(torch, partial(proven, torch, cycles, nodes, meter))
    return "" if is_whole else _CHANGING


def _encoded(part: Part) -> dict[str, Any]:
    """The fields of a part, with each array of numbers as base64 of their bytes in this machine's order."""
    place: Place | None = part.next
    names = ("addresses", "types", "counts", "lengths", "referents", "tensors", "nodes")
    columns = {name: b2a_base64(getattr(part, name), newline=False).decode() for name in names}
    return {**columns, "next": list(place) if place else None, "is_broken": part.is_broken}
