"""Checks of an inventory's side effects on the program that it reads:  manners.py LOOKS"""

import gc
import signal
import sys
import threading
import traceback
import warnings
import weakref
from pathlib import Path

warnings.simplefilter("ignore")

import torch  # noqa: E402
from checks import check, run  # noqa: E402
from gpt import GPT  # noqa: E402
from owner_texts import owner_text  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from gputui.probe.inventory.inventory import take_inventory  # noqa: E402
from gputui.probe.inventory.run import InventoryRun  # noqa: E402
from gputui.probe.main_thread.pending_call import keep_from_compiling  # noqa: E402
from gputui.probe.names.memory import Memory  # noqa: E402
from gputui.probe.objects.kinds import TypeClassifier, is_lasting  # noqa: E402

ON_CUDA = torch.cuda.is_available()
DEVICE = "cuda" if ON_CUDA else "cpu"
WAYS = ("walk", "scan")


def small_training():
    """A model and an optimizer after one step, and the logits of the next one."""
    model = GPT(vocabulary=50, width=16, layers=2, length=8).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.zeros(2, 8, dtype=torch.long, device=DEVICE)
    model(tokens).sum().backward()
    optimizer.step()
    logits = model(tokens)
    return model, optimizer, logits


@check
def cuda_is_not_initialised():
    tensor = torch.zeros(4)
    for how in WAYS:
        assert take_inventory(torch, how)["storages"]
    assert not torch.cuda.is_initialized()
    del tensor


@check
def no_module_is_imported():
    small_training()
    before = set(sys.modules)
    for how in WAYS:
        take_inventory(torch, how)
    assert set(sys.modules) == before


@check
def a_local_variable_dies_when_it_is_deleted():
    for how in WAYS:
        tensor = torch.zeros(4, device=DEVICE)
        alive = weakref.ref(tensor)
        take_inventory(torch, how)
        del tensor
        assert alive() is None


@check
def a_class_of_the_program_dies_when_it_is_deleted():
    for how in WAYS:

        class Own(torch.nn.Linear):
            pass

        class Holder:
            __slots__ = ("model",)

        held = Holder()
        held.model = Own(3, 3, device=DEVICE)
        known = TypeClassifier(torch)
        known.kinds_of([held, held.model, held.model.weight, 1])
        take_inventory(torch, how)
        gone = [weakref.ref(Own), weakref.ref(Holder)]
        del held, Own, Holder, known
        gc.collect()
        assert [ref() for ref in gone] == [None, None], gone


@check
def classes_of_installed_modules_are_remembered():
    class Linear(torch.nn.Linear):
        """Has the name and module of another."""

        __module__ = "torch.nn.modules.linear"

    assert all(map(is_lasting, (torch.nn.Linear, torch.Tensor, dict, weakref.ref, torch.optim.AdamW, Path)))
    assert not any(map(is_lasting, (Linear, OfTheProgram)))


class OfTheProgram:
    """A class of a program's own module."""


@check
def a_dictionary_from_locals_is_unchanged():
    first = torch.zeros(4, device=DEVICE)
    mine = locals()
    keys = set(mine)
    second = torch.zeros(4, device=DEVICE)
    take_inventory(torch, "walk")
    assert set(mine) == keys
    del first, second


@check
def reference_counts_are_unchanged():
    model, optimizer, logits = small_training()
    things = [model, optimizer, logits, logits.grad_fn, optimizer.state, *model.modules(), *model.parameters()]
    things += [parameter.grad for parameter in model.parameters()]
    things += [value for state in optimizer.state.values() for value in state.values()]
    for how in WAYS:
        take_inventory(torch, how)  # the first look creates weak references to modules
        before = [sys.getrefcount(thing) for thing in things]
        storages = [thing._use_count() for thing in things if isinstance(thing, torch.Tensor)]
        take_inventory(torch, how)
        assert [sys.getrefcount(thing) for thing in things] == before
        assert [thing._use_count() for thing in things if isinstance(thing, torch.Tensor)] == storages


@check
def garbage_collection_is_left_alone():
    kept = small_training()
    collected_within = []

    def note(phase, _):
        codes = (frame.f_code for frame, _ in traceback.walk_stack(None))
        if phase == "start" and InventoryRun.result.__code__ in codes:
            collected_within.append(phase)

    thresholds = gc.get_threshold()
    gc.set_threshold(1)  # a look that did not disable it would be full of collections
    gc.callbacks.append(note)
    try:
        for how in WAYS:
            for enabled in (False, True):
                (gc.enable if enabled else gc.disable)()
                inventory = take_inventory(torch, how)
                assert collected_within == []
                assert gc.isenabled() is enabled
                del inventory
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*thresholds)
        gc.enable()
    del kept


def anonymous_bytes():
    """Anonymous memory from smaps_rollup: `statm` is only an estimate on machines with many processors."""
    rollup = Path("/proc/self/smaps_rollup").read_text()
    return int(rollup.partition("Anonymous:")[2].split()[0]) * 1024


def fill_free_lists():
    """Let CPython keep as many freed tuples of each length as it ever keeps, so that looks do not add to them."""
    for length in range(1, 20):
        kept = [tuple(range(length)) for _ in range(2000)]
        del kept


@check
def many_looks_leak_no_objects_or_memory():
    kept = small_training()
    memory = Memory()
    take_inventory(torch, memory=memory)
    gc.collect()
    gc.disable()
    try:
        fill_free_lists()
        for _ in range(50):
            take_inventory(torch, memory=memory)
            take_inventory(torch)
        objects, blocks, anonymous = len(gc.get_objects()), sys.getallocatedblocks(), anonymous_bytes()
        for _ in range(int(sys.argv[1])):
            take_inventory(torch, memory=memory)
            take_inventory(torch)
        assert len(gc.get_objects()) <= objects + 5
        assert sys.getallocatedblocks() <= blocks + int(sys.argv[1]) // 4
        assert anonymous_bytes() <= anonymous + (2 << 20)
    finally:
        gc.enable()
    del kept


@check
def statistics_peaks_and_random_numbers_are_unchanged():
    kept = small_training()
    read = torch.cuda.memory_stats if ON_CUDA else dict
    random = torch.cuda.get_rng_state if ON_CUDA else torch.get_rng_state
    before, host, device = read(), torch.get_rng_state(), random()
    for how in WAYS:
        take_inventory(torch, how)
    assert read() == before
    assert torch.equal(torch.get_rng_state(), host)
    assert torch.equal(random(), device)
    del kept


@check
def nothing_warns():
    model, optimizer, logits = small_training()
    inner = logits * 2  # not a leaf: its .grad warns
    with torch.inference_mode():
        inference = torch.zeros(3, device=DEVICE)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for how in WAYS:
            take_inventory(torch, how)
    assert [str(warning.message) for warning in caught] == []
    del model, optimizer, inner, inference


@check
def a_checkpointed_forward_is_not_recomputed():
    runs = []
    layer = torch.nn.Linear(4, 4, device=DEVICE)

    def forward(x):
        runs.append(1)
        return layer(x).exp()

    for use_reentrant in (False, True):
        result = checkpoint(forward, torch.zeros(2, 4, device=DEVICE, requires_grad=True), use_reentrant=use_reentrant)
        before = len(runs)
        for how in WAYS:
            take_inventory(torch, how)
        assert len(runs) == before
        del result


@check
def no_hook_is_called():
    called = []
    model, _, _ = small_training()
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: called.append(1) or tensor)
    with hooks:
        logits = model(torch.zeros(2, 8, dtype=torch.long, device=DEVICE))
    logits.register_hook(called.append)
    logits.grad_fn.register_hook(lambda *_: called.append(1))
    model.register_forward_hook(lambda *_: called.append(1))
    model.register_full_backward_hook(lambda *_: called.append(1))
    for how in WAYS:
        take_inventory(torch, how)
    assert called == []


@check
def copy_on_write_does_not_copy():
    original = torch.zeros(1 << 20, device=DEVICE)
    clone = torch._lazy_clone(original)
    for how in WAYS:
        storages = [s for s in take_inventory(torch, how)["storages"] if s["address"] == torch._C._data_address(clone)]
        assert len(storages) == 1
        assert storages[0]["size_bytes"] == 4 << 20
    assert torch._C._is_cow_tensor(clone)
    assert torch._C._data_address(original) == torch._C._data_address(clone)


def ran(*_):
    """Stands for the program's own code, which a look must not run."""
    RUNS.append(sys._getframe(1).f_code.co_name)
    raise RuntimeError


RUNS = []


class Meta(type):
    __instancecheck__ = __subclasscheck__ = __len__ = __iter__ = __bool__ = ran


class Touchy(metaclass=Meta):
    """An object on which nearly every operation runs code."""

    __getattr__ = __len__ = __iter__ = __bool__ = __repr__ = __str__ = __contains__ = __getitem__ = __call__ = ran

    def __getattribute__(self, name):
        return ran()

    def __eq__(self, other):
        return ran()

    def __hash__(self):
        return ran()

    @property
    def __class__(self):
        return ran()


class TouchyAttributes:
    @property
    def __dict__(self):
        return ran()

    @property
    def tensor(self):
        return ran()


class TouchyList(list):
    __iter__ = __len__ = __getitem__ = __bool__ = ran


class TouchyDict(dict):
    __iter__ = __len__ = __getitem__ = __bool__ = items = values = keys = ran


class TouchyModule(torch.nn.Module):
    def __getattr__(self, name):
        return ran()

    named_parameters = parameters = children = named_modules = named_buffers = ran


class TouchyTensor(torch.Tensor):
    shape = grad = dtype = device = data = property(ran)
    untyped_storage = data_ptr = storage = __repr__ = __len__ = __iter__ = ran

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return ran()


@check
def no_code_of_the_program_runs():
    RUNS.clear()
    touchy, attributes, module = Touchy(), TouchyAttributes(), TouchyModule()
    tensor = torch.zeros(4, device=DEVICE).as_subclass(TouchyTensor)
    held = TouchyList([torch.zeros(5, device=DEVICE)]), TouchyDict(key=torch.zeros(6, device=DEVICE))
    for how in WAYS:
        storages = take_inventory(torch, how)["storages"]
        assert {str(s["shape"]) for s in storages} >= {"[4]", "[5]", "[6]"}
    assert RUNS == []
    del touchy, attributes, module, tensor, held


class CountingFunctions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return ran()


class CountingOperations(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return ran()


@check
def no_mode_of_the_program_sees_the_look():
    kept = small_training(), torch.eye(3).to_sparse()
    for how in WAYS:
        RUNS.clear()
        with CountingFunctions(), CountingOperations():
            storages = take_inventory(torch, how)["storages"]
        assert storages
        assert RUNS == []
    del kept


@check
def a_dead_proxy_is_skipped():
    module = torch.nn.Linear(2, 2)
    proxy = weakref.proxy(module)
    del module
    for how in WAYS:
        take_inventory(torch, how)
    assert type(proxy) in weakref.ProxyTypes


@check
def tensors_of_another_thread_are_found_while_it_waits():
    ready, done = threading.Event(), threading.Event()

    def worker():
        theirs = torch.zeros(7, 7, device=DEVICE)
        ready.set()
        done.wait(60)
        del theirs

    thread = threading.Thread(target=worker)
    thread.start()
    ready.wait(60)
    owners = [owner_text(s) for s in take_inventory(torch)["storages"] if s["shape"] == [7, 7]]
    done.set()
    thread.join()
    assert len(owners) == 1
    assert owners[0].startswith("theirs (manners.py:")


class Waiting(torch.autograd.Function):
    entered, leave = threading.Event(), threading.Event()

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        Waiting.entered.set()
        Waiting.leave.wait(60)
        return gradient


@check
def a_graph_in_use_by_another_thread_is_left_alone():
    leaf = torch.zeros(4, device=DEVICE, requires_grad=True)
    thread = threading.Thread(target=lambda: Waiting.apply(leaf * 2).sum().backward())
    thread.start()
    Waiting.entered.wait(60)
    problems = take_inventory(torch)["problems"]
    Waiting.leave.set()
    thread.join()
    assert any("backward pass" in problem for problem in problems)
    assert leaf.grad is not None
    assert take_inventory(torch)["problems"] == []


def compiled_frames_of_a_look(function):
    """The number of frames that torch.compile processes when a look interrupts a compiled function."""

    def interrupted(x):
        signal.raise_signal(signal.SIGUSR1)
        return x + 1

    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    compiled = torch.compile(interrupted, backend="eager")
    compiled(torch.zeros(4))
    before = torch._dynamo.utils.counters["frames"]["total"]
    signal.signal(signal.SIGUSR1, function)
    compiled(torch.zeros(4))
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    return torch._dynamo.utils.counters["frames"]["total"] - before


@check
def a_look_is_not_compiled():
    import torch._dynamo

    looks = []

    def look(signum, frame):
        looks.append(take_inventory(torch))

    keep_from_compiling(look)
    assert compiled_frames_of_a_look(look) == 0
    assert len(looks) == 1


@check
def a_look_adds_no_graph_node_to_a_view_written_in_place():
    base = torch.zeros(4, device=DEVICE, requires_grad=True) * 1
    view = base[:2]
    view.mul_(2)
    sequence = base.grad_fn._sequence_nr() if hasattr(base.grad_fn, "_sequence_nr") else 0
    for how in WAYS:
        take_inventory(torch, how)
    after = (base * 2).grad_fn
    assert after._sequence_nr() > sequence
    (after.next_functions[0][0], view)


@check
def variables_of_closures_are_read_through_their_cells():
    held = torch.zeros(9, 9, device=DEVICE)

    def inner():
        inside = held
        names = [owner_text(s) for s in take_inventory(torch)["storages"] if s["shape"] == [9, 9]]
        return names, inside

    names, _ = inner()
    assert names[0].startswith("held (manners.py:")


@check
def the_program_gets_no_warning():
    model, *rest = small_training()
    with warnings.catch_warnings(record=True) as shown, torch.autocast(DEVICE, torch.bfloat16):
        warnings.simplefilter("always")
        for how in WAYS:
            assert take_inventory(torch, how)["problems"] == []
    assert shown == []
    del model, rest


@check
def known_sizes_that_cannot_be_read_cost_no_tensors():
    tensor = torch.zeros(4, device=DEVICE)
    asked = torch.is_autocast_cache_enabled

    def warn():
        raise FutureWarning("is_autocast_cache_enabled is deprecated")

    with torch.autocast(DEVICE, torch.bfloat16):
        torch.is_autocast_cache_enabled = warn
        try:
            inventory = take_inventory(torch)
        finally:
            torch.is_autocast_cache_enabled = asked
    assert inventory["storages"]
    if ON_CUDA:
        (problem,) = inventory["problems"]
        assert problem.startswith("A part of the inventory could not be read (record_known_sizes: FutureWarning: ")
    del tensor


run()
