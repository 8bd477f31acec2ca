"""Reading the variables of running functions, without the dictionary that `frame.f_locals` leaves in a frame."""

import ctypes
import gc
import json
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from gputui.probe.objects import stacks
from gputui.probe.objects.frame_variables import can_read_variables, variables
from tests.hanging import HANGS_S, wait_until
from tests.scale import sized


class Held:
    """Stands for a tensor."""


def test_local_variables_are_read_by_name():
    first, second = Held(), [1]
    read = variables(sys._getframe())
    assert read["first"] is first
    assert read["second"] is second
    assert "read" not in read


def test_arguments_and_cells_are_read():
    outer = Held()

    def function(argument, shared, *rest, key=None, **others):
        read = variables(sys._getframe())
        assert read["argument"] == 1
        assert read["shared"] is shared
        assert read["rest"] == (3,)
        assert read["key"] == 4
        assert read["others"] == {"more": 5}
        assert read["outer"] is outer
        return lambda: shared

    function(1, 2, 3, key=4, more=5)


def test_a_comprehension_whose_variable_is_called_like_an_enclosing_one_moves_no_variable():
    batch, teacher = Held(), Held()

    def function():
        numbers = [-batch for batch in range(3)]
        read = variables(sys._getframe())
        assert read["batch"] is batch
        assert read["teacher"] is teacher
        assert read["numbers"] is numbers

    function()


def test_a_variable_without_a_value_is_left_out():
    if can_read_variables():
        read = variables(sys._getframe())
    later = 1
    assert "later" not in read
    assert later


def test_reading_variables_keeps_no_reference_to_them():
    held = Held()
    alive = weakref.ref(held)
    assert "held" in variables(sys._getframe())
    del held
    assert alive() is None


def test_a_dictionary_from_locals_is_not_written_to():
    held = Held()
    mine = locals()
    keys = set(mine)
    later = held
    stacks.namespaces({}, stacks.running())
    assert set(mine) == keys
    assert later is held


def test_a_place_names_file_line_and_function():
    held = Held()
    spaces, line = stacks.namespaces({}, stacks.running()), sys._getframe().f_lineno
    places = [space.where for space in spaces if space.variables.get("held") is held]
    assert places == [f"test_stacks.py:{line} in test_a_place_names_file_line_and_function"]


def test_a_generator_and_a_comprehension_are_frames_as_well():
    def generator():
        inside = Held()
        yield [
            space.variables["inside"] is inside
            for space in stacks.namespaces({}, stacks.running())
            if "inside" in space.variables
        ]

    assert next(generator()) == [True]


def test_a_callback_of_a_weak_reference_runs_while_an_object_is_freed():
    seen = []
    held = Held()
    assert not stacks.is_freeing(stacks.running())
    references = [
        weakref.ref(held, lambda _: seen.append(stacks.is_freeing(stacks.running()))),
        weakref.ref(held, lambda *_: seen.append(stacks.is_freeing(stacks.running()))),
    ]
    del held
    assert seen == [True] * len(references)


def test_a_destructor_runs_while_an_object_is_freed():
    class WithDestructor:
        def __del__(self):
            seen.append(stacks.is_freeing(stacks.running()))

    seen = []
    WithDestructor()
    assert seen == [True]


def test_a_living_weak_reference_as_an_argument_frees_nothing():
    def function(_reference):
        return stacks.is_freeing(stacks.running())

    held = Held()
    assert function(weakref.ref(held)) is False


def test_reading_stacks_leaves_no_garbage():
    gc.collect()
    gc.disable()
    stacks.is_freeing(stacks.running())
    stacks.namespaces({}, stacks.running())
    garbage = gc.collect()
    gc.enable()
    assert garbage == 0


READS = sized(1000, 5000)


@pytest.mark.long
def test_functions_of_other_threads_may_end_while_their_variables_are_read():
    program = Path(__file__).parent / "programs" / "changing_stacks.py"
    words = [sys.executable, str(program), str(READS)]
    run = subprocess.run(words, capture_output=True, text=True, timeout=HANGS_S, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    seen = json.loads(run.stdout)
    assert {"second", "third", "last", "number"} <= set(seen["names"])
    assert {"Held", "list", "tuple"} <= set(seen["types"])


class Semaphore(ctypes.Structure):
    """Setting `now` waits for it without the interpreter's lock, as PyTorch does while it frees a gradient."""

    _fields_ = (("room", ctypes.c_long * 8),)


def test_a_thread_that_sets_an_attribute_is_seen() -> None:
    libc, semaphore = ctypes.CDLL(None), Semaphore()
    libc.sem_wait.argtypes = [ctypes.POINTER(Semaphore), ctypes.c_void_p]
    Semaphore.now = property(None, libc.sem_wait)
    libc.sem_init(ctypes.byref(semaphore), 0, 0)

    def set_attribute() -> None:
        semaphore.now = None

    assert not stacks.another_thread_sets_attribute()
    thread = threading.Thread(target=set_attribute)
    thread.start()
    wait_until(stacks.another_thread_sets_attribute)
    libc.sem_post(ctypes.byref(semaphore))
    thread.join()
    assert not stacks.another_thread_sets_attribute()
