"""Going through all of Python's objects in parts."""

import ast
import gc
from types import SimpleNamespace

from gputui.probe.objects.heap import SORTED_AT_LEAST, TAKEN_PER_STEP, Heap
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
