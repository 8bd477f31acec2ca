"""The verdict: who holds most, whether it grows, when the device is full; growth by counters; steady findings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.advice.leaks.counters import growth_of, rate_words, time_left_words
from gputui.explain.answer.answers import Answers
from gputui.explain.answer.steady import LEAVES_AFTER, Standings, after
from gputui.explain.answer.verdict import look_holders, verdict
from gputui.explain.owners.not_yet import not_yet_words
from gputui.model.attached.analysis import Finding
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.owners import Keeper
from gputui.model.attached.target import Disconnect, DisconnectKind, Recorder
from gputui.model.attached.tensors import Category, Container
from gputui.model.attached.timeline import Timeline
from gputui.model.reading import Problem, ProblemKind
from gputui.model.weight import Weight
from gputui.units import GIB, MIB
from tests.explain.maps import segment
from tests.explain.moments import Tensor, moment, row

P, O, A, X = Category.PARAMETER, Category.OPTIMIZER_STATE, Category.ACTIVATION, Category.OTHER  # noqa: E741
MODEL = [Tensor(100, f"model.{layer}.weight", P) for layer in range(4)]
STATES = [Tensor(200, f"optimizer.state[model.{layer}.weight].exp_avg", O) for layer in range(4)]
LOSSES = [
    Tensor(90, "mat1 of AddmmBackward0", A, saved_by="AddmmBackward0", kept_by=f"losses[{n}] (train.py:9 in step)")
    for n in range(12)
]


def verdict_on(seen: TargetMoment, *before: TargetMoment):
    counters = Timeline(*before, seen).counters(0, seen.time)
    looks = [look_holders(past, past.devices[0]) for past in (*before, seen)]
    answer = verdict(seen, seen.devices[0], counters, looks)
    assert answer is not None
    return answer


MOST = {
    "optimizer states": (
        row(*MODEL, *STATES),
        "is held by the states of optimizer: 800 MiB, 33%",
    ),
    "a list of graphs": (
        row(*MODEL, *LOSSES),
        "is held by losses (train.py:9 in step): 1.1 GiB, 45%",
    ),
    "the cache": (
        (segment(("live", 10), ("free", 900)), []),
        "is free in its cache: 900 MiB, 38%",
    ),
    "an exception": (
        row(Tensor(900, "x (last exception, a.py:5 in f)", X, keeper=Keeper.LAST_EXCEPTION)),
        "is held by the last exception: 900 MiB, 38%",
    ),
}


@pytest.mark.parametrize(("part", "words"), MOST.values(), ids=MOST)
def test_the_sentence_names_the_largest_holder(part, words):
    assert verdict_on(moment(part, used_mib=2400)).sentence == (
        f"Most of PyTorch's memory {words} of what this process holds."
    )


def test_the_largest_holder_of_less_than_half_does_not_hold_most():
    words = "held by the states of optimizer: 800 MiB, "
    for others_mib, start in ((400, "Most of PyTorch's memory is"), (402, "The most PyTorch memory is")):
        part = row(*MODEL, *STATES, Tensor(others_mib, "x (train.py:3 in step)", X))
        assert verdict_on(moment(part, used_mib=2400)).sentence.startswith(f"{start} {words}")


def test_a_holder_says_what_it_keeps_and_since_when():
    before, seen = moment(row(*MODEL), time=100.0), moment(row(*MODEL, *LOSSES), time=200.0)
    largest, model = verdict_on(seen, before).holders[:2]
    assert largest.holder.label == "losses (train.py:9 in step)"
    assert largest.holder.keeps == "keeps a graph with 12 x AddmmBackward0: 1.1 GiB"
    assert (largest.since, model.since) == (200.0, 0.0)


def test_a_growing_variable_is_the_likely_holder_of_memory_without_a_name():
    seen = moment(row(*MODEL, Tensor(900, "", Category.UNATTRIBUTED), LOSSES[0]))
    leak = Finding(Weight.PROBLEM, "", (), owners=("losses",), bytes=90 * MIB, kind="leak")
    device = seen.devices[0]
    answer = verdict(seen, device, looks=[look_holders(seen, device)], findings=[leak])
    assert answer is not None
    assert "blocks without a known owner, most likely losses (train.py:9 in step): 900 MiB" in answer.sentence


LIKELY = ", most likely table (train.py:9 in step)"


@pytest.mark.parametrize(
    ("elements", "name", "likely"),
    [(20_000, "table[{0}]", LIKELY), (1000, "table[{0}]", ""), (2600, "table[{1}].part{2}", LIKELY)],
)
def test_a_list_of_more_elements_than_were_read_is_the_likely_holder_too(elements: int, name: str, likely: str):
    names = [name.format(n, n // 2, n % 2) for n in range(100)]
    read = [Tensor(1, f"{name} (train.py:9 in step)", X) for name in names]
    seen = moment(row(*MODEL, Tensor(9000, "", Category.UNATTRIBUTED), *read))
    assert seen.look is not None
    assert seen.look.inventory is not None
    table = Container(7, "table", "train.py:9 in step", "", "list", elements)
    inventory = replace(seen.look.inventory, containers=(table,))
    seen = replace(seen, look=replace(seen.look, inventory=inventory))
    assert f"held by blocks without a known owner{likely}: 8.8 GiB" in verdict_on(seen).sentence


def growing(mib_per_s: float, seconds: int = 60, swing: float = 300) -> list[TargetMoment]:
    """One moment a second of a program whose steps go up and down."""
    return [
        moment(
            row(Tensor(100 + mib_per_s * second + swing * (second % 5) / 4, "x (train.py:9 in step)")),
            time=1000.0 + second,
            used_mib=2048 + 100 + mib_per_s * second + swing,
        )
        for second in range(seconds)
    ]


UNNAMED = row(Tensor(900, "", Category.UNATTRIBUTED), Tensor(4, "x (train.py:9 in step)", X))


def searched_in_part(seen: TargetMoment, time: float = 100.0, mib: float = 900) -> TargetMoment:
    """The same with a look that could find more, and these MiB of blocks without a name."""
    device = seen.devices[0]
    assert device.layout is not None
    sums = {**device.layout.by_category, Category.UNATTRIBUTED: int(mib * MIB)}
    part = replace(device, layout=replace(device.layout, is_searched=False, by_category=sums))
    return replace(seen, time=time, look_time=time, devices=(part,))


def test_memory_that_nothing_leads_to_comes_with_what_to_do():
    seen = moment(UNNAMED)
    answer = verdict_on(seen)
    assert "blocks without a known owner" in answer.sentence
    assert "C++ code or a library" in answer.nameless
    assert "Memory history on" in answer.nameless
    assert (answer.needs_look, answer.not_yet) == (False, "")
    assert "Tensors screen" in verdict_on(replace(seen, history=Recorder.PROGRAM)).nameless
    assert verdict_on(moment(row(*MODEL))).nameless == ""


def test_memory_that_was_not_searched_for_yet_asks_for_nothing():
    answer = verdict_on(searched_in_part(moment(UNNAMED)))
    assert "blocks not named yet: 900 MiB" in answer.sentence
    assert (answer.nameless, answer.needs_look) == ("", False)
    assert answer.not_yet == "100% not named yet"


def test_where_no_looks_come_by_themselves_it_asks_for_one():
    problem = Problem("Looks are taken on request only.", ProblemKind.LOOK_ON_REQUEST)
    answer = verdict_on(replace(searched_in_part(moment(UNNAMED)), problems=(problem,)))
    assert ("look on request" in answer.nameless, answer.needs_look) == (True, True)


@pytest.mark.parametrize(
    ("unnamed_mib", "words"),
    [
        ((900, 600, 300), "33% not named yet, about 10 s more"),
        ((900, 300, 300), "33% not named yet, about 10 s more"),
        ((900, 900, 900), "100% not named yet"),
        ((300, 300, 600), "66% not named yet"),
        ((900, 890, 880), "97% not named yet"),
        ((900, 40, 5), ""),
    ],
)
def test_how_long_the_rest_takes_is_told_from_the_last_looks(unnamed_mib: tuple[int, ...], words: str):
    looks = [(10.0 * number, mib * MIB) for number, mib in enumerate(unnamed_mib)]
    seen = searched_in_part(moment(UNNAMED), mib=unnamed_mib[-1])
    assert not_yet_words(seen, seen.devices[0], looks) == words


def test_shares_keep_their_words_while_nvml_is_behind_what_pytorch_has_reserved():
    seen = moment(row(*MODEL, *STATES), used_mib=1000)
    assert seen.devices[0].statistics.reserved_bytes > 1000 * MIB
    assert verdict_on(seen).sentence.endswith("of what this process holds.")


@pytest.mark.parametrize(("gib", "whole"), [(2, "of what this process holds"), (20, "of the device")])
def test_shares_are_of_the_device_where_the_process_holds_a_notable_part_of_it(gib: int, whole: str):
    answer = verdict_on(moment(row(*MODEL, Tensor(gib * 1024 - 900, "x")), used_mib=gib * 1024))
    assert answer.whole == whole
    assert answer.sentence.endswith(f" {whole}.")


def test_growth_is_told_from_the_counters_with_its_rate_and_the_time_left():
    *before, seen = growing(10)
    answer = verdict_on(seen, *before)
    assert answer.weight is Weight.PROBLEM
    assert answer.growth is not None
    assert answer.growth.bytes_per_s == pytest.approx(10 * MIB, rel=0.1)
    assert answer.sentence.endswith(" and fills the device in 2 hours.")


NO_GROWTH = {
    "steps go up and down": [(float(s), (s % 7) * GIB) for s in range(120)],
    "it rose once": [(float(s), GIB if s < 30 else 5 * GIB) for s in range(120)],
    "it falls": [(float(s), (200 - s) * GIB) for s in range(120)],
    "too few readings": [(float(s), s * GIB) for s in range(10)],
    "too short a time": [(s / 10, s * GIB) for s in range(100)],
    "little beside the steps": [(float(s), (s % 5) * 20 * GIB + s * MIB) for s in range(120)],
    "nothing was read": [],
}


@pytest.mark.parametrize("readings", NO_GROWTH.values(), ids=NO_GROWTH)
def test_memory_that_does_not_keep_rising_is_no_growth(readings):
    assert growth_of(readings) is None


def test_rates_and_times_are_in_units_that_people_use():
    assert [rate_words(rate * MIB) for rate in (120, 0.1, 0.001)] == [
        "120 MiB a second", "6.0 MiB a minute", "3.6 MiB an hour",
    ]  # fmt: skip
    assert [time_left_words(seconds) for seconds in (3, 45, 420, 9000, 10**6)] == [
        "20 seconds", "40 seconds", "7 minutes", "2 hours", "",
    ]  # fmt: skip


def test_the_peak_says_what_the_largest_look_held():
    seen = moment(row(*MODEL), peak_allocated_bytes=2 * GIB)
    assert verdict_on(seen).peak.startswith("Peak of allocated memory: 2.0 GiB. The largest look so far, at ")
    assert (
        "held 400 MiB, 1.6 GiB below the peak: most of it the parameters of model (400 MiB)." in verdict_on(seen).peak
    )


def test_two_holders_of_many_are_not_said_to_be_most_of_the_largest_look():
    for names, words in (("abcd", "most of it a (100 MiB) and"), ("abcde", "the largest parts a (100 MiB) and")):
        held = [Tensor(100, name, X) for name in names]
        peak = verdict_on(moment(row(*held), peak_allocated_bytes=2 * GIB)).peak
        assert f"below the peak: {words} b (100 MiB)." in peak


def finding(kind: str) -> Finding:
    return Finding(Weight.ADVICE, kind, (), kind=kind)


def shown(*evaluations: str) -> list[list[str]]:
    """The kinds that are shown after each evaluation, one a second; past ones in brackets."""
    state, kinds = Standings(), []
    for second, names in enumerate(evaluations, start=1):
        state = after(state, [finding(name) for name in names], float(second))
        kinds.append([f"({f.kind})" if f.until else f.kind for f in state.findings])
    return kinds


def test_a_finding_of_the_last_moment_of_a_process_is_shown_at_once():
    before = after(Standings(), [], 100.0)
    assert not after(before, [finding("out_of_memory")], 102.0).findings
    assert after(before, [finding("out_of_memory")], 102.0, is_last=True).findings


def test_the_first_findings_are_shown_at_once_and_later_ones_once_they_held_twice():
    assert shown("a", "ab", "ab") == [["a"], ["a"], ["a", "b"]]


def test_a_finding_that_comes_and_goes_stays():
    assert shown("a", "", "a", "", "", "a") == [["a"]] * 6


def test_a_finding_that_is_gone_becomes_past_and_leaves():
    kinds = shown("a", *[""] * 80)
    assert kinds[1:LEAVES_AFTER] == [["a"]] * (LEAVES_AFTER - 1)
    assert kinds[LEAVES_AFTER] == ["(a)"]
    assert kinds[-1] == []


def test_a_past_finding_is_shown_for_a_minute():
    state = after(Standings(), [finding("a")], 100.0)
    until = {time: (state := after(state, [], float(time))).findings for time in range(102, 162, 2)}
    assert [time for time, findings in until.items() if not findings] == [160]


def test_an_answer_stays_the_same_when_it_is_asked_for_again():
    timeline, answers = Timeline(), Answers()
    *before, seen = growing(10)
    for past in (*before, seen):
        timeline.add(past)
    answer = answers.at(seen, seen.devices[0], timeline)
    assert [f.kind for f in answer.findings][:1] == ["leak"]
    assert Answers().at(seen, seen.devices[0], timeline).verdict == answer.verdict


def test_after_a_jump_the_findings_are_those_that_looks_before_the_moment_have():
    looks = [moment(row(*MODEL), time=100.0 + number, num_ooms=int(number >= 20)) for number in range(40)]
    timeline, answers = Timeline(*looks), Answers()
    kinds = [
        [finding.kind for finding in answers.at(seen, seen.devices[0], timeline).findings if not finding.until]
        for seen in (looks[2], looks[35], looks[3])
    ]
    assert ["out_of_memory" in found for found in kinds] == [False, True, False]


def test_a_program_that_stands_still_for_long_is_said_to():
    times = (100.0, 130.0, 159.0, 170.0)
    looks = [moment(row(*MODEL), time=time, generation=5) for time in times]
    said = [verdict_on(seen, *looks[:number]).sentence for number, seen in enumerate(looks)]
    assert ["Nothing has moved since" in sentence for sentence in said] == [False, False, False, True]
    moved = moment(row(*MODEL), time=171.0, generation=6)
    assert "Nothing has moved" not in verdict_on(moved, *looks).sentence


def test_after_the_end_the_verdict_is_about_the_past():
    seen = moment(row(*MODEL))
    ended = replace(seen, ended=Disconnect(DisconnectKind.EXITED))
    assert verdict_on(ended).sentence.startswith("Most of PyTorch's memory was held by the parameters of model")
