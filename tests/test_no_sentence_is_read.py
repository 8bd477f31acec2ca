"""Texts are for people: the program behaves the same with every reason, problem and sentence in another language."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest

from gputui.explain.advice import findings
from gputui.explain.answer.verdict import look_holders, verdict
from gputui.explain.moment import disconnects
from gputui.model.attached.analysis import Finding
from gputui.model.attached.target import Disconnect, DisconnectKind
from gputui.model.machine.device import Device, DeviceLook, Lost
from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import NOT_LOOKED_AT, NOT_READ, Absent, AbsentKind, Problem, ProblemKind
from gputui.model.weight import Weight
from gputui.once.document import document
from gputui.probe.pace import budget
from gputui.sources.files.recording.reader import Recording
from gputui.sources.files.recording.story import Story
from gputui.sources.nvml import errors
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.head import draw_ending
from gputui.ui.drawing.attach.why import draw_advice
from gputui.ui.drawing.line import text_of
from gputui.ui.drawing.monitor.devices import DeviceRow, draw_lost
from tests.explain.maps import segment
from tests.explain.moments import Tensor, moment, row
from tests.recording.made import job
from tests.ui.attach.sitting import sitting

FOREIGN = "un motif: traduit"
DEVICE = Device(0, "GPU-0", "H100", "")


@pytest.mark.parametrize("kind", AbsentKind)
def test_only_failed_readings_are_problems_of_the_once_document(kind: AbsentKind) -> None:
    device = DEVICE._replace(power_w=Absent(FOREIGN, kind))
    problems = document(Snapshot(devices=DeviceLook(devices=(device,))))["devices"][0]["problems"]
    assert problems == ([f"power_w: {FOREIGN}"] if kind is AbsentKind.FAILED else [])


def test_an_unread_device_has_no_problems_in_the_once_document() -> None:
    assert {NOT_READ.kind, NOT_LOOKED_AT.kind} == {AbsentKind.NOT_READ_YET, AbsentKind.ON_REQUEST}
    assert document(Snapshot(devices=DeviceLook(devices=(DEVICE,))))["devices"][0]["problems"] == []


def test_nvml_errors_are_classified_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "REASONS", dict.fromkeys(errors.REASONS, FOREIGN))
    kinds = {code: errors.absent_of(code).kind for code in errors.Code}
    assert [code for code, kind in kinds.items() if kind is not AbsentKind.FAILED] == [errors.Code.NOT_SUPPORTED]


def test_a_narrow_row_of_a_lost_device_omits_the_remedy() -> None:
    lost = DeviceRow(DEVICE._replace(lost=Lost(FOREIGN, "redémarrer")), (), Appearance())
    assert f"{FOREIGN}: redémarrer" in text_of((draw_lost(lost, 120),))
    narrow = text_of((draw_lost(lost, 50),))
    assert FOREIGN in narrow
    assert "redém" not in narrow


@pytest.mark.parametrize("kind", DisconnectKind)
def test_every_disconnect_is_shown_with_the_pid(kind: DisconnectKind) -> None:
    ended = replace(moment(segment(("live", 4))), ended=Disconnect(kind, FOREIGN))
    for pid in (7, 4242):
        shown = replace(ended, greeting=replace(ended.greeting, pid=pid))
        assert f"process {pid}" in " ".join(text_of(draw_ending(shown, 400)).lower().split())


def test_a_renamed_process_of_a_recording_ends_under_its_new_pid(tmp_path, monkeypatch) -> None:
    sentences = dict.fromkeys(DisconnectKind, ("{pid} " + FOREIGN, ""))
    monkeypatch.setattr(disconnects, "_SENTENCES", sentences)
    recording = Recording(job(4).write(tmp_path / "job.gputui"))
    *_, last = Story(recording, lambda greeting: replace(greeting, pid=4242)).moments()
    assert text_of(draw_ending(last, 80)).startswith(f" 4242 {FOREIGN}")


@pytest.mark.parametrize("kind", ProblemKind)
async def test_the_key_for_a_look_is_shown_only_if_a_look_helps(kind: ProblemKind) -> None:
    shown = replace(moment(segment(("live", 40))), problems=(Problem(FOREIGN, kind),))
    async with sitting(shown) as at:
        assert FOREIGN in at.text
        assert ("Press u to look now." in at.text) == (kind is ProblemKind.LOOK_ON_REQUEST)


def test_a_probe_problem_is_marked_by_kind_if_a_look_helps() -> None:
    assert budget.on_request(FOREIGN) == {"text": FOREIGN, "kind": ProblemKind.LOOK_ON_REQUEST.value}


def test_a_finding_is_marked_by_a_flag_if_a_look_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = import_module("gputui.explain.advice.allocator.stuck")
    monkeypatch.setattr(stuck, "what_names", lambda _moment: FOREIGN)
    on_request = (Problem(FOREIGN, ProblemKind.LOOK_ON_REQUEST),)
    fragmented = replace(moment(segment(("live", 1), ("free", 199))), problems=on_request)
    device = fragmented.devices[0]
    unnamed = replace(device, layout=replace(device.layout, is_searched=False))
    seen = {
        is_named: {finding.kind: finding for finding in findings(fragmented_now, 0)}["stuck"]
        for is_named, fragmented_now in ((True, fragmented), (False, replace(fragmented, devices=(unnamed,))))
    }
    assert {is_named: (finding.remedy == FOREIGN, finding.needs_look) for is_named, finding in seen.items()} == {
        True: (False, False),
        False: (True, True),
    }


def test_what_to_do_is_chosen_by_the_variables_of_a_verdict_and_not_by_its_sentence():
    seen = moment(row(Tensor(400, "batch")), used_mib=600)
    answer = verdict(seen, seen.devices[0], looks=[look_holders(seen, seen.devices[0])])
    cure = Finding(Weight.ADVICE, FOREIGN, (), "del batch", owners=("batch",))
    assert answer.variables == {"batch"}
    assert text_of(draw_advice((cure,), replace(answer, sentence=FOREIGN), 80)).startswith(" > del batch")
    other = replace(answer, variables=frozenset({"model"}))
    assert text_of(draw_advice((cure,), other, 80)).startswith(f" * {FOREIGN}")
