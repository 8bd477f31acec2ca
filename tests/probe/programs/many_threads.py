"""Looks at a program of many threads: what all of them hold is named, and a look does little for each of them."""

import asyncio
import gc
import os
import sys
import threading
import warnings
import weakref
from contextlib import contextmanager

warnings.simplefilter("ignore")

import torch  # noqa: E402
from checks import check, run  # noqa: E402
from owner_texts import owner_text  # noqa: E402
from reader_looks import Looks  # noqa: E402

from gputui.probe.looks.stops import empty_look  # noqa: E402
from gputui.probe.looks.torch_reader import FREEING, MANY_THREADS  # noqa: E402
from gputui.probe.objects.heap import Heap, LongGenerations  # noqa: E402
from gputui.probe.objects.kinds import TypeClassifier  # noqa: E402
from gputui.probe.objects.listing import finished, of_classes  # noqa: E402
from gputui.probe.pace.meter import Meter  # noqa: E402

FEW, MANY = 30, 230
CALLS_FOR_EACH = 12
"""So many functions of Python a look may call for each thread more, of which it reads one in twelve or so."""
STEPS = 2000
"""Of a stop that has time for a few of the threads only."""
REST = 20
"""After so many looks, each thread was read and rests."""


class Freed:
    """Has weak references whose callbacks wait."""


@contextmanager
def threads(functions):
    """A thread for each of these functions, which get a function that waits until all is over."""
    is_over, ready = threading.Event(), threading.Semaphore(0)

    def wait():
        ready.release()
        is_over.wait()

    started = [threading.Thread(target=function, args=(wait,)) for function in functions]
    for thread in started:
        thread.start()
    for _ in started:
        ready.acquire()
    while len(is_over._cond._waiters) < len(started):  # a thread that still runs is read again in the next look
        os.sched_yield()
    try:
        yield
    finally:
        is_over.set()
        for thread in started:
            thread.join()


def idle(wait):
    wait()


def holding(number):
    """A function whose variable holds a tensor of so many elements."""

    def hold(wait):
        held = torch.ones(number, device="cuda")
        wait()
        assert len(held) == number

    return hold


def named(inventory):
    """The sizes of the tensors that have the name of a thread's or a task's variable."""
    names = ((storage, owner_text(storage).partition(" (")[0]) for storage in inventory["storages"])
    return {storage["shape"][0] for storage, name in names if name == "held" or name.endswith("].held")}


def calls_of_a_look(looks):
    """How many functions of Python one stop calls."""
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    looks.read(sys.maxsize)
    sys.setprofile(None)
    return calls


@check
def a_thread_more_makes_a_look_little_dearer():
    calls = []
    for number in (FEW, MANY):
        with threads([idle] * number):
            looks = Looks(REST)
            calls.append(min(calls_of_a_look(looks) for _ in range(4)))
    few, many = calls
    assert many - few <= CALLS_FOR_EACH * (MANY - FEW), calls


@check
def what_a_few_of_many_threads_hold_is_named_in_each_look():
    sizes = {1000 + number for number in range(3)}
    with threads([*map(holding, sizes), *[idle] * MANY, *map(holding, {2000, 2001})]):
        looks = Looks(1)
        for _ in range(REST):
            assert named(looks.take()) >= sizes | {2000, 2001}


@contextmanager
def tasks(sizes):
    """A task of asyncio's for each of these sizes, whose variable holds a tensor of so many elements."""

    async def hold(number):
        held = torch.ones(number, device="cuda")
        await asyncio.Event().wait()
        assert len(held) == number

    loop = asyncio.new_event_loop()
    _started = [loop.create_task(hold(number)) for number in sizes]
    loop.run_until_complete(asyncio.sleep(0))
    try:
        yield
    finally:
        for task in _started:
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


@check
def what_all_threads_or_tasks_hold_keeps_its_name_where_looks_have_time_for_some():
    model, sizes = torch.nn.Linear(8, 8, device="cuda"), set(range(3000, 3000 + MANY))
    for holders in (threads(map(holding, sizes)), tasks(sizes)):
        with holders:
            looks = Looks()
            inventories = [looks.take(STEPS) for _ in range(2 * REST)]
            seen = list(map(named, inventories))
            assert looks.steps <= STEPS
            assert seen[0] < sizes, "one look has read all of them"
            assert all(names == sizes for names in seen[REST:]), list(map(len, seen))
            assert {inventory["owners"].get(model.weight.data_ptr()) for inventory in inventories} == {"model.weight"}


@check
def what_a_thread_held_has_no_name_of_its_once_it_is_gone():
    with threads([*map(holding, {4000, 4001}), *[idle] * FEW]):
        looks = Looks(4)
    kept = torch.ones(4000, device="cuda")  # where the block of the thread was
    owners = {storage["shape"][0]: owner_text(storage) for storage in looks.take()["storages"] if storage["shape"]}
    assert owners.get(len(kept), "").startswith("kept"), owners
    assert 4001 not in owners


def freeing(wait):
    freed = Freed()
    reference = weakref.ref(freed, lambda _: wait())
    del freed
    assert reference() is None


@check
def any_of_many_threads_that_frees_an_object_is_seen():
    with threads([*[idle] * FEW, freeing, *[idle] * FEW]):
        look = empty_look([])
        Looks().reader.read(torch, "walk", look, Meter(60), may_walk=False)
        assert (look["inventory"], look["problems"]) == (None, [FREEING])


@check
def threads_at_too_many_places_are_not_asked_and_a_sentence_says_so():
    def deep(wait, depth):
        return deep(wait, depth - 1) if depth else wait()

    with threads([lambda wait, depth=depth: deep(wait, depth) for depth in range(FEW)]):
        look = empty_look([])
        Looks().reader.read(torch, "walk", look, Meter(60, max_steps=500), may_walk=False)
        assert (look["inventory"], look["problems"]) == (None, [MANY_THREADS])


class Switching:
    """Says what objects are, and before that has another thread run, as the interpreter may in the middle of a stop."""

    def __init__(self, run_another):
        self._classifier, self._run_another = TypeClassifier(torch), run_another

    def kinds_of(self, values):
        return self.kinds_of_classes(list(map(type, values)))

    def kinds_of_classes(self, classes):
        self._run_another()
        return self._classifier.kinds_of_classes(classes)


def made_meanwhile(look):
    """What becomes of a tuple that another thread makes, as this looks, and lets that thread run while it does."""
    is_begun, may_end, made = threading.Event(), threading.Event(), []

    def numbers():
        yield from range(3)
        is_begun.set()
        may_end.wait()

    def make():
        made.append(tuple(numbers()))

    def let_it_end():
        may_end.set()
        thread.join()

    gc.disable()  # what is being made stays young
    thread = threading.Thread(target=make)
    thread.start()
    is_begun.wait()
    look(let_it_end)
    gc.enable()
    return made


@check
def a_tuple_that_another_thread_is_making_is_left_to_it():
    assert made_meanwhile(lambda let_it_end: Heap(Switching(let_it_end)).young(LongGenerations())) == [(0, 1, 2)]
    assert made_meanwhile(lambda let_it_end: Heap(Switching(let_it_end)).all(Meter(60), 0)) == [(0, 1, 2)]


@check
def whatever_lists_objects_leaves_it_that_tuple():
    def held_while(list_objects):
        def look(let_it_end):
            objects = list_objects()
            let_it_end()
            assert any(value is sys for value in objects)

        return look

    for list_objects in (finished, lambda listed: of_classes(listed, {id(type(torch))})):
        assert made_meanwhile(held_while(lambda listing=list_objects: listing(gc.get_objects))) == [(0, 1, 2)]


if __name__ == "__main__":
    torch.ones(1, device="cuda")
    run()
