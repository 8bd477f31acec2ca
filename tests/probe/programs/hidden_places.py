"""Tensors in the objects of C, functions and generators where programs keep them, and their names."""

import asyncio
import collections
import functools
import itertools
import pathlib
import queue
import threading
import types
import warnings
import weakref
from contextvars import ContextVar

warnings.simplefilter("ignore")

import torch  # noqa: E402
from checks import check, run  # noqa: E402
from owner_texts import owner_text  # noqa: E402

from gputui.probe.inventory.inventory import take_inventory  # noqa: E402
from gputui.probe.names.memory import Memory  # noqa: E402
from gputui.probe.pace.meter import Meter  # noqa: E402
from gputui.probe.search.containers import add_graphs  # noqa: E402
from gputui.probe.search.suspended import CROWD  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CURRENT = ContextVar("current")
MODEL = torch.nn.Identity()
STEPS_FOR_ONE_LEVEL = 300
"""Of a look, half of which are for the search of variables: 128 elements of each of two lists take more."""
LOOKS = 16


def zeros(number):
    return torch.zeros(number, 3, device=DEVICE)


def owner(number, memory=None):
    """The owner of the one tensor with this shape."""
    (found,) = (owner_text(s) for s in take_inventory(torch, memory=memory)["storages"] if s["shape"] == [number, 3])
    return found


def entry(number):
    """The same without the place, and the category."""
    (found,) = (s for s in take_inventory(torch)["storages"] if s["shape"] == [number, 3])
    return owner_text(found).partition(" (")[0], found["category"]


def container(name, memory=None):
    inventory = take_inventory(torch, memory=memory)
    (found,) = (c for c in add_graphs(inventory["containers"], inventory["roots"], {}, {}) if c["name"] == name)
    return found


@functools.lru_cache(maxsize=None)  # noqa: UP033 (for Python 3.8)
def mask(number):
    return zeros(number)


@functools.lru_cache(maxsize=64)
def bounded_mask(number):
    return zeros(number)


def remember(number, known={}):  # noqa: B006 (what is tested)
    known[number] = zeros(number)


def count():
    count.calls = zeros(107)


def read_ahead(number):
    batch = zeros(number)
    yield
    del batch


@check
def results_in_a_cache_are_named_by_their_arguments():
    for number in range(200, 204):
        mask(number)
    assert entry(203) == ("mask[203]", "other")
    found = container("mask")
    assert (found["type"], found["elements"], found["limit"]) == ("lru_cache", 4, 0)
    assert found["grown_at"].startswith("hidden_places.py:")
    assert found["grown_at"].endswith(" in mask")


class Loader:
    def __init__(self):
        self.batches = queue.Queue()

    def fill(self, numbers):
        for number in numbers:
            self.batches.put(zeros(number))


def grows_at(name, statement):
    """Whether the line by which a container grows is the one with this statement, in this file."""
    file, _, line = container(name)["grown_at"].partition(" in ")[0].partition(":")
    assert file == "hidden_places.py", container(name)["grown_at"]
    return statement in pathlib.Path(__file__).read_text(encoding="utf-8").splitlines()[int(line) - 1]


@check
def a_queue_grows_where_the_program_puts_into_it():
    batches = queue.Queue()
    for number in range(220, 224):
        batches.put(zeros(number))
    assert grows_at("batches.queue", "batches.put(")
    loader = Loader()
    loader.fill(range(225, 229))
    assert grows_at("loader.batches.queue", "self.batches.put(")


@check
def results_in_a_cache_with_a_size_are_numbered():
    for number in range(210, 214):
        bounded_mask(number)
    assert entry(213) == ("bounded_mask[3]", "other")
    assert (container("bounded_mask")["elements"], container("bounded_mask")["limit"]) == (4, 64)


@check
def default_arguments_and_attributes_of_functions_are_read():
    remember(105)
    count()
    assert entry(105) == ("known[105]", "other")
    assert entry(107) == ("count.calls", "other")


@check
def a_generator_between_two_turns_has_its_variables_read():
    memory = Memory()
    for _ in read_ahead(110):
        first, second = owner(110, memory), owner(110, memory)
    assert first == second
    assert first.startswith("batch (hidden_places.py:")
    assert first.endswith(" in read_ahead)")


@check
def generators_in_a_container_are_named_after_it():
    buffers = {size: read_ahead(size) for size in (112, 113)}
    list(map(next, buffers.values()))
    assert entry(113) == ("buffers[113].batch", "other")


@check
def a_crowd_of_tasks_in_a_container_is_named_after_it_and_counts_as_its_elements():
    async def answer(request):
        return await infer(request, zeros(114))

    async def infer(request, hidden):
        await request
        return hidden

    class Server:
        def __init__(self):
            self.tasks = set()

    loop, server = asyncio.new_event_loop(), Server()
    requests = [loop.create_future() for _ in range(CROWD)]
    server.tasks.update(loop.create_task(answer(request)) for request in requests)
    loop.run_until_complete(asyncio.sleep(0))
    names = {owner_text(s).partition("[")[0] for s in take_inventory(torch)["storages"] if s["shape"] == [114, 3]}
    assert names == {"server.tasks"}
    found = container("server.tasks")
    assert (found["elements"], found["read"]) == (CROWD, CROWD)
    for request in requests:
        request.set_result(None)
    loop.run_until_complete(asyncio.sleep(0))  # their results stay in the tasks
    loop.close()
    results = (owner_text(s).partition(" (")[0] for s in take_inventory(torch)["storages"] if s["shape"] == [114, 3])
    assert {name.partition("]")[2] for name in results} == {".result()"}
    assert container("server.tasks")["read"] == CROWD


@check
def a_long_look_reads_all_functions_in_a_container():
    calls = collections.deque([(True, functools.partial(print, zeros(115))) for _ in range(300)])
    inventory = take_inventory(torch, memory=Memory(reads_records=True))
    names = {owner_text(s).partition(" (")[0] for s in inventory["storages"] if s["shape"] == [115, 3]}
    assert names == {f"calls[{number}][1][0]" for number in range(len(calls))}


@check
def what_elements_hold_gets_its_turn_beside_long_lists_where_time_is_short():
    rows = [{"ids": [number], "label": number} for number in range(5000)]
    held = [types.SimpleNamespace(state=types.SimpleNamespace(hidden=zeros(116))) for _ in range(300)]
    memory, named = Memory(), []
    for _ in range(LOOKS):
        meter = Meter(float("inf"), max_steps=STEPS_FOR_ONE_LEVEL)
        found = take_inventory(torch, meter=meter, memory=memory)["storages"]
        named.append(any(owner_text(s).startswith("held[") for s in found if s["shape"] == [116, 3]))
    assert sum(named) >= LOOKS // 2, named
    assert len(rows) > len(held)


@check
def a_coroutine_that_waits_for_another_has_both_read():
    @types.coroutine
    def forever():
        yield

    async def inner():
        held = zeros(111)
        await forever()
        return held

    async def outer():
        held = zeros(112)
        await inner()
        return held

    task = outer()
    task.send(None)
    assert owner(111).startswith("held (hidden_places.py:")
    assert owner(112).startswith("held (hidden_places.py:")
    task.close()


@check
def iterators_and_views_lead_to_what_they_go_through():
    batches = iter([zeros(120)])
    again = itertools.cycle([zeros(121)])
    pairs = enumerate([zeros(122)])
    frozen = types.MappingProxyType({"mean": zeros(123)})
    assert entry(120) == ("batches[0]", "other")
    assert entry(121)[0].startswith("again[0]")
    assert entry(122)[0].startswith("pairs[0]")
    assert entry(123) == ("frozen['mean']", "other")
    del batches, again, pairs, frozen


@check
def elements_of_a_wrapped_dictionary_are_named_as_its_own():
    batch = collections.UserDict({"ids": zeros(125)})
    by_model = weakref.WeakKeyDictionary()
    by_model[MODEL] = zeros(126)
    assert entry(125) == ("batch['ids']", "other")
    assert entry(126)[0].startswith("by_model[")
    del batch, by_model


@check
def namespaces_context_variables_and_thread_locals_are_read():
    state = types.SimpleNamespace(average=zeros(130))
    local = threading.local()
    local.cache = {"key": zeros(131)}
    CURRENT.set(zeros(132))
    assert entry(130) == ("state.average", "other")
    assert entry(131) == ("local.cache['key']", "other")
    assert entry(132) == ("CURRENT", "other")
    del state, local
    CURRENT.set(None)


@check
def containers_are_searched_deeper_than_objects():
    class Log:
        def __init__(self):
            self.history = {"val": {"epochs": {3: {"logits": [zeros(140)]}}}}

    trainer = types.SimpleNamespace(log=Log())
    assert entry(140) == ("trainer.log.history['val']['epochs'][3]['logits'][0]", "other")
    del trainer


@check
def a_second_variable_that_is_soon_gone_takes_no_name_away():
    memory = Memory()
    agent = types.SimpleNamespace(weights={"layer": zeros(190)}, groups=[[{"step": zeros(191)}]])
    weight, group = agent.weights["layer"], agent.groups[0]
    assert owner(190, memory).startswith("weight (")
    del weight, group
    assert owner(190, memory).startswith("agent.weights['layer']")
    assert owner(191, memory).startswith("agent.groups[0][0]['step']")
    del agent


@check
def parameters_are_no_replaced_models_while_variables_are_unread():
    parameters = {"weight": torch.nn.Parameter(zeros(195))}
    optimizer = torch.optim.SGD(parameters.values())
    meter = Meter(float("inf"))
    parameters.clear()
    meter.leave_out()
    (found,) = (s for s in take_inventory(torch, meter=meter)["storages"] if s["shape"] == [195, 3])
    assert found["keeper"] == ""
    (found,) = (s for s in take_inventory(torch)["storages"] if s["shape"] == [195, 3])
    assert found["keeper"] == "optimizer"
    del optimizer


@check
def elements_with_tuples_as_keys_are_told_apart():
    masks = {(number, "causal"): zeros(160 + number) for number in range(4)}
    assert entry(163) == ("masks[(3, 'causal')]", "other")
    del masks


@check
def models_in_a_container_count_as_its_elements():
    models = [torch.nn.Linear(170, 3, bias=False, device=DEVICE) for _ in range(5)]
    assert (container("models")["elements"], container("models")["read"]) == (5, 5)
    del models


@check
def states_of_an_optimizer_that_is_not_pytorchs_are_optimizer_states():
    class Lion:
        def __init__(self, parameters):
            self.state = {parameter: {"average": zeros(180)} for parameter in parameters}

    lion = Lion([torch.nn.Parameter(zeros(181))])
    assert entry(180) == ("lion.state[Parameter]['average']", "optimizer_state")
    del lion


@check
def a_parameter_without_a_module_is_a_parameter():
    weight = torch.nn.Parameter(zeros(150))
    assert entry(150) == ("weight", "parameter")
    del weight


run()
