"""Going through Python's objects: all of them in parts, and the young ones."""

import ast
import gc
from collections import Counter, deque
from types import SimpleNamespace

import pytest

from gputui.probe.objects.heap import SORTED_AT_LEAST, TAKEN_PER_STEP, YOUNG_AT_MOST, Heap, LongGenerations
from gputui.probe.objects.kinds import TENSOR
from gputui.probe.pace.meter import Meter
from tests.torches import REPOSITORY


class Classifier:
    """Finds nothing, and counts what it is asked for."""

    def __init__(self):
        self.asked = []

    def kinds_of(self, objects):
        self.asked.append(len(objects))
        return [0] * len(objects)


def test_a_scan_comes_further_even_if_listing_the_objects_took_all_its_time():
    kept = [SimpleNamespace() for _ in range(3 * SORTED_AT_LEAST)]
    heap, start, starts = Heap(Classifier()), 0, []
    for _ in range(1 + len(gc.get_objects()) // SORTED_AT_LEAST):
        _, start = heap.all(Meter(0.0), start)
        starts.append(start)
    assert starts[0] == SORTED_AT_LEAST
    assert starts[-1] == 0, "the last part goes to the end"
    assert starts[:-1] == sorted(starts[:-1])
    assert len(kept) == 3 * SORTED_AT_LEAST


class AllowsParts:
    """A meter that always has time for a scan of this length, which is no whole number of pieces."""

    def affordable_steps(self):
        return (SORTED_AT_LEAST + 1000) // TAKEN_PER_STEP

    def spend(self, steps=1):
        return True

    def leave_out(self):
        pass


def test_scans_that_each_go_on_where_the_last_one_ended_pass_over_no_object():
    """A scan may end within a piece: the next one begins at the object behind the last."""
    kept = [SimpleNamespace() for _ in range(3 * SORTED_AT_LEAST)]
    classifier = Classifier()
    heap, start, passed = Heap(classifier), 0, []
    while not passed or start:
        classifier.asked.clear()
        _, end = heap.all(AllowsParts(), start)
        asked = sum(classifier.asked)
        assert not end or end - start == asked
        passed.append(asked)
        start = end
    assert len(passed) > 1
    assert len(kept) == 3 * SORTED_AT_LEAST


def test_objects_are_listed_only_where_unfinished_tuples_are_let_go():
    calling = {
        path.name
        for path in (REPOSITORY / "gputui" / "probe").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("gc.get_objects", "gc.get_referrers")
    }
    assert calling == {"own_imports.py"}, "as the probe is imported, what refers to the builtins: dictionaries"


class Result:
    """Stands for a tensor."""


class FindsResults:
    def kinds_of(self, objects):
        return self.kinds_of_classes(list(map(type, objects)))

    def kinds_of_classes(self, classes):
        return [TENSOR if cls is Result else 0 for cls in classes]


@pytest.fixture
def listed(monkeypatch):
    """How often each generation was listed; no object is young at first, and no collection comes by itself."""
    listed, list_objects = Counter(), gc.get_objects

    def counting(generation):
        listed[generation] += 1
        return list_objects(generation=generation)

    monkeypatch.setattr(gc, "get_objects", counting)
    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    gc.collect()
    gc.disable()
    yield listed
    gc.enable()
    gc.set_threshold(*thresholds)


def replay_buffer():
    """Twice as many young objects as a look reads, each of which has replaced an old one."""
    buffer = deque((SimpleNamespace() for _ in range(2 * YOUNG_AT_MOST)), maxlen=2 * YOUNG_AT_MOST)
    gc.collect()
    buffer.extend(SimpleNamespace() for _ in range(2 * YOUNG_AT_MOST))
    assert gc.get_count()[0] < YOUNG_AT_MOST
    return buffer


def found_young(long):
    return Heap(FindsResults()).young(long)[TENSOR]


def test_young_objects_are_listed_twice_by_each_look(listed):
    kept, long = [Result()], LongGenerations()
    for looks in (1, 2, 3):
        assert found_young(long) == kept
        assert listed == {0: 2 * looks, 1: 2 * looks}


def test_results_that_one_collection_has_seen_are_found_whatever_the_thresholds(listed):
    gc.set_threshold(2000, 10, 10)  # those of Python 3.13: as many could be in the generation as no look reads
    kept, long = [Result()], LongGenerations()
    gc.collect(0)
    assert found_young(long) == kept


@pytest.mark.parametrize("generation", [0, 1])
def test_a_generation_that_is_too_long_is_listed_once_and_not_read(listed, generation):
    kept, long = [replay_buffer(), Result()], LongGenerations()
    for _ in range(generation):
        gc.collect(0)
    for _ in range(5):
        assert found_young(long) == []
    assert listed[generation] == 1
    assert len(kept) == 2


def test_the_longer_a_generation_was_the_more_looks_pass_over_it_after_a_collection(listed):
    kept, long = [replay_buffer()], LongGenerations()
    found_young(long)
    passed_over = 0
    while listed[0] == 1:
        gc.collect()
        kept.append(Result())
        found = found_young(long)
        passed_over += listed[0] == 1
    assert passed_over == 2, "it was twice as long as one that is read"
    assert found == kept[-1:]


def test_a_generation_that_is_long_by_its_count_is_not_even_listed(listed):
    kept, long = [SimpleNamespace() for _ in range(2 * YOUNG_AT_MOST)], LongGenerations()
    found_young(long)
    assert listed[0] == 0
    assert len(kept) == 2 * YOUNG_AT_MOST
