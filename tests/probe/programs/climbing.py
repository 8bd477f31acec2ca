"""The way up from tensors without a name, and what is remembered of it, for many habits of keeping tensors."""

import asyncio
import gc
import sys
import threading
import types
import warnings
import weakref
from collections import defaultdict, deque
from functools import cache, partial

warnings.simplefilter("ignore")

import torch  # noqa: E402
from checks import check, run  # noqa: E402
from owner_texts import owner_text  # noqa: E402
from reader_looks import Looks  # noqa: E402

from gputui.probe.inventory.inventory import take_inventory  # noqa: E402
from gputui.probe.names.climb_stops import ClimbStops  # noqa: E402
from gputui.probe.names.container_tensors import TENSORS_AT_ONCE, ContainerTensors  # noqa: E402
from gputui.probe.names.memory import Memory  # noqa: E402
from gputui.probe.objects.attributes import AttributeReader  # noqa: E402
from gputui.probe.objects.kinds import SEQUENCE, TypeClassifier  # noqa: E402
from gputui.probe.pace.meter import Meter  # noqa: E402
from gputui.probe.search.records import RecordReader  # noqa: E402
from gputui.probe.tensors.weak_storages import WeakStorages  # noqa: E402

MANY = 40
LEVELS_AT_MOST = 20
SHAPE = (300, 100)


class Holder:
    def __init__(self, **attributes):
        vars(self).update(attributes)


class Slotted:
    __slots__ = ("kept",)

    def __init__(self, kept):
        self.kept = kept


class Log:
    entries = []  # noqa: RUF012 - programs keep tensors so


class History(list):
    """A list with a name of its own."""


REGISTRY = {}


def tensor():
    return torch.ones(*SHAPE, device="cuda")


@cache
def embedded(_number):
    return tensor()


def blocks():
    """The sizes by address of the tensors that `tensor` has made."""
    made = (held for held in gc.get_objects() if type(held) is torch.Tensor and held.shape == SHAPE)
    return {held.data_ptr(): held.untyped_storage().nbytes() for held in made}


def climbed():
    """The names of what is remembered after a climb from these tensors, which no look has seen."""
    memory, climbing = Memory(), ClimbStops()
    memory.climb.note_unnamed(blocks())
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(LEVELS_AT_MOST):
            climbing.climb(torch, memory)
            if not memory.climb.is_under_way:
                break
        assert not memory.climb.is_under_way
        return memory, [keeper.named.name for keeper in memory.remembered.keepers()]
    finally:
        if was_collecting:
            gc.enable()


def owners(memory):
    """The names of these tensors in the next look."""
    storages = take_inventory(torch, memory=memory)["storages"]
    return sorted(owner_text(storage).partition(" (")[0] for storage in storages if storage["shape"] == list(SHAPE))


def finds(keep, expected, element):
    """Keep some tensors by a function: a climb names the keeper, and the next look each tensor."""
    for number in range(MANY):
        keep(number, tensor())
    memory, names = climbed()
    assert names == [expected], names
    found = owners(memory)
    assert found == sorted(element.format(number) for number in range(MANY)), found[:3]


@check
def lists_in_dictionaries_of_dictionaries():
    run_history = Holder(history={"train": {}, "val": defaultdict(lambda: {"preds": []})})
    for number in range(MANY):
        run_history.history["val"][number % 4]["preds"].append(tensor())
    memory, names = climbed()
    assert names == ["run_history.history['val']"], names
    elements = [f"[{epoch}]['preds'][{number}]" for epoch in range(4) for number in range(MANY // 4)]
    assert owners(memory) == sorted(f"run_history.history['val']{element}" for element in elements)


@check
def tuples_in_a_deque_of_an_object():
    agent = Holder(memory=deque())
    finds(lambda number, held: agent.memory.append((number, held)), "agent.memory", "agent.memory[{}][1]")


@check
def dictionaries_in_a_list_in_slots():
    loop = Slotted([])
    finds(lambda number, held: loop.kept.append({"out": held}), "loop.kept", "loop.kept[{}]['out']")


@check
def values_of_a_dictionary_by_number():
    cache = {}
    finds(cache.__setitem__, "cache", "cache[{}]")


@check
def a_list_in_a_closure():
    def keeper():
        seen = []
        return lambda number, held: seen.append(held)

    keep = keeper()
    finds(keep, "seen", "seen[{}]")


@check
def a_list_of_a_class():
    finds(lambda number, held: Log.entries.append(held), "Log.entries", "Log.entries[{}]")
    Log.entries.clear()


@check
def a_dictionary_among_the_globals():
    finds(lambda number, held: REGISTRY.setdefault(number, [held]), "REGISTRY", "REGISTRY[{}][0]")
    REGISTRY.clear()


@check
def the_results_that_a_function_caches():
    finds(lambda number, _: embedded(number), "embedded", "embedded[{}]")
    embedded.cache_clear()


@check
def a_subclass_of_list_in_a_thread():
    done, ready = threading.Event(), threading.Event()
    history = History()

    def serve(history):
        ready.set()
        done.wait()
        return history

    thread = threading.Thread(target=serve, args=(history,))
    thread.start()
    ready.wait()
    keep = partial(lambda kept, _number, held: kept.append(held), history)
    try:
        finds(keep, "history", "history[{}]")
    finally:
        done.set()
        thread.join()


@check
def a_climb_keeps_nothing_alive():
    holder = Holder(kept=[tensor() for _ in range(MANY)])
    memory, climbing = Memory(), ClimbStops()
    memory.climb.note_unnamed(blocks())
    references = list(map(weakref.ref, holder.kept))
    climbing.climb(torch, memory)
    climbing.climb(torch, memory)
    assert memory.climb.is_under_way
    holder.kept = None
    left = [reference() for reference in references if reference() is not None]
    assert not left, len(left)
    climbing.climb(torch, memory)
    assert memory.remembered.keepers() == []


@check
def tensors_that_looks_know_can_be_swapped_by_the_program():
    remembered, cycle = [tensor() for _ in range(MANY)], Holder(kept=[tensor() for _ in range(MANY)])
    looks = Looks(2)
    torch.utils.swap_tensors(remembered[0], tensor())
    cycle.own, in_cycle = cycle, list(map(id, cycle.kept))
    del cycle
    gc.disable()
    for _ in range(LEVELS_AT_MOST):
        looks.take()
        looks.climb()
        kept = [value for value in gc.get_objects() if id(value) in in_cycle]
        assert len(kept) == MANY
        assert not any(map(weakref.getweakrefs, kept))
        del kept
    gc.enable()


@check
def a_reference_to_a_storage_keeps_no_memory():
    before = torch.cuda.memory_allocated()
    made = [tensor() for _ in range(MANY)]
    storages, moved = WeakStorages(), WeakStorages()
    storages.add(made)
    del made[MANY // 2 :]
    moved.take(storages)
    assert (len(storages), len(moved), list(storages.are_alive())) == (0, MANY, [])
    assert list(moved.are_alive()) == [True] * (MANY // 2) + [False] * (MANY // 2)
    del made[:]
    assert torch.cuda.memory_allocated() == before
    assert not any(moved.are_alive())


@check
def a_list_that_went_elsewhere_is_not_named_after_its_variable():
    holder, other = Holder(kept=[tensor() for _ in range(MANY)]), Holder(kept=[])
    memory, names = climbed()
    assert names == ["holder.kept"]
    other.kept, holder.kept = holder.kept, None
    assert memory.remembered.keepers() == []
    del other


@check
def what_a_search_has_come_to_stays_remembered_wherever_it_is():
    def adder():
        in_closure = [tensor() for _ in range(MANY)]
        return lambda held: in_closure.extend([held])

    add, holder = adder(), Holder(kept=[tensor() for _ in range(MANY)])
    add_partly, slotted = partial(adder()), Slotted([tensor() for _ in range(MANY)])
    history = History(tensor() for _ in range(MANY))
    Log.entries.extend(history)
    for number in range(MANY):
        embedded(number)
    memory = Memory()
    come_to = take_inventory(torch, memory=memory)["collections"]
    for collection in come_to:
        memory.remembered.keep(collection)
    names = sorted(keeper.named.name for keeper in memory.remembered.keepers())
    assert names == sorted(collection.name for collection in come_to), names
    assert {"in_closure", "holder.kept", "slotted.kept", "history", "Log.entries", "embedded"} <= set(names), names
    found = [name for name in owners(memory) if name.startswith("embedded")]
    assert found == sorted(f"embedded[{number}]" for number in range(MANY)), found[:3]
    Log.entries.clear()
    embedded.cache_clear()
    del add, holder, add_partly, slotted


def many():
    return [tensor() for _ in range(MANY)]


def stay_remembered(idents, names):
    """Whether the lists with these ids, which a look comes to by these names, are still known after some more."""
    memory = Memory()
    for collection in take_inventory(torch, memory=memory)["collections"]:
        if collection.handles[-1].address in idents:
            memory.remembered.keep(collection)
    before = {keeper.named.name for keeper in memory.remembered.keepers()}
    for _ in range(3):
        take_inventory(torch, memory=memory)
    return before == names == {keeper.named.name for keeper in memory.remembered.keepers()}


@check
def what_is_in_one_of_many_threads_stays_remembered():
    done, ready = threading.Event(), threading.Semaphore(0)

    def serve(in_thread):
        ready.release()
        done.wait()
        return in_thread

    def start():
        kept = many()
        threading.Thread(target=serve, args=(kept,)).start()
        ready.acquire()
        return id(kept)

    newest = [start() for _ in range(MANY // 2)][-1]
    try:
        assert stay_remembered({newest}, {"in_thread"})
    finally:
        done.set()


@check
def what_is_in_one_of_many_tasks_stays_remembered():
    async def answer(in_task):
        await asyncio.sleep(0)
        return in_task

    def ask():
        kept = many()
        return asyncio.ensure_future(answer(kept)), id(kept)

    async def serve():
        tasks = dict(ask() for _ in range(MANY // 2))
        await asyncio.sleep(0)
        assert stay_remembered({tasks[max(tasks, key=id)]}, {"in_task"})
        await asyncio.gather(*tasks)

    asyncio.run(serve())


@check
def what_is_in_a_generator_or_in_a_module_without_a_running_function_stays_remembered():
    def produce():
        in_generator = many()
        yield id(in_generator)
        yield in_generator

    sys.modules["kept_in"] = module = types.ModuleType("kept_in")
    module.IN_MODULE, module.__file__ = many(), __file__
    module.Log = type("Log", (), {"in_class": many(), "__module__": "kept_in"})
    generator = produce()
    idents = {next(generator), id(module.IN_MODULE), id(module.Log.in_class)}
    try:
        assert stay_remembered(idents, {"in_generator", "IN_MODULE", "Log.in_class"})
    finally:
        del sys.modules["kept_in"]


@check
def tensors_that_are_known_without_a_name_are_climbed_from():
    gc.collect()
    deep = [tensor() for _ in range(MANY)]
    for _ in range(9):
        deep = [deep]
    looks, names = Looks(), []
    made = blocks()
    for _ in range(LEVELS_AT_MOST):
        inventory = looks.take()
        names.append({name.partition("[")[0] for at, name in inventory["owners"].items() if at in made})
        looks.climb()
    assert names[0] == {"unnamed Tensor"}, names[0]
    assert names[-1] == {"deep"}, names[-1]


@check
def nothing_leads_to_what_nothing_holds():
    address = torch._C._cuda_cudaCachingAllocator_raw_alloc(1 << 20, 0)
    memory, climbing = Memory(), ClimbStops()
    memory.climb.note_unnamed({address: 1 << 20})
    climbing.climb(torch, memory)
    assert memory.climb.unnamed_bytes == 0
    memory.climb.note_unnamed({address: 1 << 20})
    assert memory.climb.unnamed_bytes == 0
    torch._C._cuda_cudaCachingAllocator_raw_delete(address)


def read(kept, reader, container, steps, *, is_slow=False):
    """One look's reading with so many steps; each tensor has an entry by its address.

    `is_slow`: a machine on which to record one part takes all the time of a look.
    """
    meter = Meter(60, max_steps=steps)
    for part in (kept.read_new, kept.read_on):
        for _, tensors in part(container, SEQUENCE, "kept", reader, meter):
            kept.note(tensors, [{"address": held.data_ptr(), "views": []} for held in tensors], are_all=True)
            meter.spend(meter.affordable_steps() if is_slow else 0)
    return known_at(kept)


def known_at(kept):
    return {entry["address"] for entry in kept.known()}


def addresses(tensors):
    return {held.data_ptr() for held in tensors}


@check
def what_is_known_stays_known_and_each_look_adds_to_it():
    for is_slow in (False, True):
        each_look_adds(is_slow=is_slow)


def each_look_adds(*, is_slow):
    kept, reader = ContainerTensors(), RecordReader(TypeClassifier(torch), AttributeReader())
    container = [torch.ones(8, device="cuda") for _ in range(6 * TENSORS_AT_ONCE)]
    before, looks = set(), 0
    while not kept.is_read:
        known = read(kept, reader, container, TENSORS_AT_ONCE, is_slow=is_slow)
        assert known > before
        before, looks = known, looks + 1
        if kept.is_read:
            assert known == addresses(container)
        container += [torch.ones(8, device="cuda") for _ in range(8)]
    assert 3 <= looks <= 30, looks


@check
def what_is_new_in_a_long_list_is_read_first():
    kept, reader = ContainerTensors(), RecordReader(TypeClassifier(torch), AttributeReader())
    container = [torch.ones(8, device="cuda") for _ in range(3 * TENSORS_AT_ONCE)]
    while not kept.is_read:
        read(kept, reader, container, TENSORS_AT_ONCE)
    read(kept, reader, container, TENSORS_AT_ONCE // 2)
    new = [torch.ones(8, device="cuda") for _ in range(4)]
    container += new
    assert addresses(new) <= read(kept, reader, container, TENSORS_AT_ONCE)


@check
def what_was_freed_is_not_known_any_more():
    kept, reader = ContainerTensors(), RecordReader(TypeClassifier(torch), AttributeReader())
    container = [torch.ones(8, device="cuda") for _ in range(TENSORS_AT_ONCE)]
    read(kept, reader, container, 100 * TENSORS_AT_ONCE)
    del container[TENSORS_AT_ONCE // 2 :]
    assert known_at(kept) == addresses(container)


run()
