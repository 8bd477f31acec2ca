"""Objects, classes and names on which nearly every operation runs code, which counts its calls:  FILE LOOKS"""

import asyncio
import builtins
import ctypes
import os
import signal
import sys
import threading
import types
import warnings
from collections import OrderedDict, deque
from functools import partial
from itertools import islice
from time import time

warnings.simplefilter("ignore")

import torch  # noqa: E402
from checks import check, run  # noqa: E402
from owner_texts import owner_text  # noqa: E402

from gputui.probe import lifecycle  # noqa: E402
from gputui.probe.looks.messages import look_frame  # noqa: E402
from gputui.probe.looks.stops import undisturbed  # noqa: E402
from gputui.probe.looks.torch_reader import TorchReader  # noqa: E402
from gputui.probe.main_thread import held_signals  # noqa: E402
from gputui.probe.pace.meter import Meter  # noqa: E402
from gputui.probe.search import search, variables  # noqa: E402

WAYS = ("walk", "scan")
LOOKS = int(sys.argv[1])
"""By each method: a later look recognises what an earlier one has found."""
RUNS = []
LOOKING = threading.Event()


def note(name):
    if LOOKING.is_set():
        RUNS.append(f"{name} for {sys._getframe(2).f_code.co_name} of {sys._getframe(2).f_code.co_filename}")


def counted(base, name):
    """A method that counts, and does what that of the base class does."""

    def method(*arguments, **keywords):
        note(f"{base.__name__}.{name}")
        return getattr(base, name)(*arguments, **keywords)

    return method


def counting(base, names):
    return {name: counted(base, name) for name in names.split() if hasattr(base, name)}


def counted_property(name, answer):
    def read(owner):
        note(name)
        return answer(owner)

    return property(read)


COMPARED = "__eq__ __ne__ __hash__ __lt__ __repr__ __str__ __format__ __getattribute__ __dir__ __sizeof__ __reduce_ex__"
CONTAINER = "__iter__ __len__ __getitem__ __contains__ __reversed__ get items keys values copy pop index count __add__"
TEXT = "__mod__ startswith partition rpartition split strip encode join isdecimal __radd__ __rmod__ __ror__ __or__"
OF_A_CLASS = "__instancecheck__ __subclasscheck__ mro __subclasses__ __prepare__ __or__ __ror__"
ANSWERS = "__name__ __module__ __flags__ __mro__ __bases__ __dict__ __doc__"


def metaclass(base):
    """A metaclass on which nearly all that one can ask a class runs code."""
    methods = {name: counted(base, name) for name in f"{COMPARED} {OF_A_CLASS}".split() if name != "__prepare__"}
    truth = {"__bool__": lambda _: note("truth") or True, "__len__": lambda _: note("length") or 1}
    answers = {name: counted_property(f"meta.{name}", type.__dict__[name].__get__) for name in ANSWERS.split()}
    return type(base)(f"Counting_{base.__name__}", (base,), {**methods, **truth, **answers})


Meta = metaclass(type)
TensorMeta = metaclass(type(torch.Tensor))


def made(meta, name, base, attributes=()):
    """A class of this metaclass, made without its `__call__`."""
    return meta.__new__(meta, name, (base,), dict(attributes))


Name = Meta.__new__(Meta, "Name", (str,), counting(str, f"{COMPARED} {CONTAINER} {TEXT}"))
Dict = Meta.__new__(Meta, "Dict", (dict,), counting(dict, f"{COMPARED} {CONTAINER}"))
Ordered = Meta.__new__(Meta, "Ordered", (OrderedDict,), counting(OrderedDict, f"{COMPARED} {CONTAINER}"))
List = Meta.__new__(Meta, "List", (list,), counting(list, f"{COMPARED} {CONTAINER}"))
Tuple = Meta.__new__(Meta, "Tuple", (tuple,), counting(tuple, f"{COMPARED} {CONTAINER}"))
Set = Meta.__new__(Meta, "Set", (set,), counting(set, f"{COMPARED} {CONTAINER}"))
Deque = Meta.__new__(Meta, "Deque", (deque,), counting(deque, f"{COMPARED} {CONTAINER}"))
LIES = {
    "__class__": counted_property("__class__", lambda _: torch.nn.Module),
    "__dict__": counted_property("__dict__", lambda _: {}),
}
Liar = Meta.__new__(Meta, "Liar", (), {**counting(object, COMPARED), "__class__": LIES["__class__"]})
Error = Meta.__new__(Meta, "Error", (Exception,), {**counting(Exception, COMPARED), **LIES})
Module = Meta.__new__(Meta, "Module", (torch.nn.Module,), counting(torch.nn.Module, f"{COMPARED} __getattr__"))
Tensor = TensorMeta.__new__(
    TensorMeta, "Tensor", (torch.Tensor,), counting(torch.Tensor, "__hash__ __eq__ __repr__ __len__")
)
Adam = Meta.__new__(Meta, "Adam", (torch.optim.Adam,), counting(torch.optim.Adam, COMPARED))


def name(text):
    return str.__new__(Name, text)


def look(method, reader):
    """What a look reads, describes and sends, in the thread of the caller."""
    fields = {"type": "look", "time": time(), "problems": [], "statistics": [], "map": None, "settings": None}
    fields["inventory"] = None
    read = partial(reader.read, torch, method, fields, Meter(float("inf")), may_walk=True)
    fields["cost"] = undisturbed(read, 100.0)
    found = fields["inventory"]
    reader.describe(fields)
    pieces, _ = look_frame(dict(fields))
    assert pieces
    return fields["problems"] + found["problems"], found


def looks():
    """Some looks, in which no code of the program may run; returns the storages of each."""
    storages = []
    for method in WAYS:
        reader = TorchReader()
        for _ in range(LOOKS):
            RUNS.clear()
            LOOKING.set()
            try:
                problems, found = look(method, reader)
            finally:
                LOOKING.clear()
            assert RUNS == [], RUNS
            assert problems == [], problems
            assert found["is_complete"]
            storages.append(found["storages"])
    return storages


def owners(shape):
    """The names that all looks give the tensor of this shape."""
    return {owner_text(storage) for storages in looks() for storage in storages if storage["shape"] == list(shape)}


@check
def classes_with_metaclasses():
    held = List([torch.zeros(2, 1)]), Tuple([torch.zeros(2, 2)]), Deque([torch.zeros(2, 3)]), Dict(a=torch.zeros(2, 4))
    liar = object.__new__(Liar)
    object.__getattribute__(liar, "__dict__")["tensor"] = torch.zeros(2, 5)
    tensors = {str(storage["shape"]) for storage in looks()[0]}
    assert tensors >= {f"[2, {number}]" for number in range(1, 6)}, tensors
    del held, liar


@check
def a_long_list_of_objects_of_such_classes():
    def filled(number):
        liar = object.__new__(Liar)
        object.__getattribute__(liar, "__dict__")[name("tensor")] = torch.zeros(2, 7)
        return liar, Dict({name("of a dictionary"): torch.zeros(2, 8)}), List([torch.zeros(2, 9)]), name(str(number))

    held = List(map(filled, range(200)))
    reader = TorchReader(reads_records=True)
    RUNS.clear()
    LOOKING.set()
    try:
        _, found = look("walk", reader)
    finally:
        LOOKING.clear()
    assert RUNS == [], RUNS
    for number in (7, 8, 9):
        assert len([s for s in found["storages"] if s["shape"] == [2, number]]) == len(held)


class_with_data = made(Meta, "WithData", object, {"history": [torch.zeros(3, 1)], "limit": object.__new__(Liar)})


@check
def a_class_that_is_a_variable():
    assert owners((3, 1)) == {"WithData.history[0]"}


@check
def a_tensor_of_a_class_with_a_metaclass():
    tensor = torch.zeros(4, 1).as_subclass(Tensor)
    (owner,) = owners((4, 1))
    assert owner.startswith("tensor (hostile_objects.py:"), owner
    del tensor


@check
def a_module_of_a_class_with_a_metaclass():
    model = torch.nn.Module.__new__(Module)
    torch.nn.Module.__init__(model)
    model.weight = torch.nn.Parameter(torch.zeros(5, 1))
    model.buffer = torch.zeros(5, 2)
    optimizer = torch.optim.Adam.__new__(Adam)
    torch.optim.Adam.__init__(optimizer, [model.weight])
    model.weight.sum().backward()
    optimizer.step()
    assert owners((5, 1)) == {"model.weight", "model.weight.grad", "optimizer.state[model.weight].exp_avg"} | {
        "optimizer.state[model.weight].exp_avg_sq"
    }


@check
def names_of_parameters_and_modules():
    model, inner = torch.nn.Module(), torch.nn.Module()
    inner.register_parameter(name("weight"), torch.nn.Parameter(torch.zeros(6, 1)))
    inner.register_buffer(name("mean"), torch.zeros(6, 2))
    model.add_module(name("inner"), inner)
    del inner
    assert owners((6, 1)) == {"model.inner.weight"}, owners((6, 1))
    assert owners((6, 2)) == {"model.inner.mean"}


@check
def registries_of_other_types():
    model = torch.nn.Module()
    for registry in ("_parameters", "_buffers", "_modules"):
        model.__dict__[registry] = Dict()
    dict.__setitem__(model.__dict__["_parameters"], "weight", torch.nn.Parameter(torch.zeros(7, 1)))
    dict.__setitem__(model.__dict__["_modules"], "inner", torch.nn.Linear(7, 2, bias=False))
    assert owners((7, 1)) == {"model.weight"}
    assert owners((2, 7)) == {"model.inner.weight"}


@check
def registries_that_lie():
    model = torch.nn.Linear(7, 3, bias=False)
    model.__dict__["_buffers"] = object.__new__(Liar)
    assert owners((3, 7)) == {"model.weight"}


@check
def a_module_with_a_property_in_the_place_of_its_namespace():
    class Hidden(torch.nn.Module):
        __class__ = LIES["__class__"]
        __dict__ = counted_property("__dict__", torch.nn.Module.__dict__["__dict__"].__get__)

    model = Hidden()
    model.weight = torch.nn.Parameter(torch.zeros(8, 1))
    model.cache = torch.zeros(8, 2)
    assert owners((8, 1)) == {"model.weight"}
    assert owners((8, 2)) == {"model.cache"}


@check
def names_of_attributes():
    class Holder:
        pass

    holder = Holder()
    setattr(holder, name("tensor"), torch.zeros(9, 1))
    vars(holder)[3] = torch.zeros(9, 2)
    model = torch.nn.Module()
    vars(model)[name("cache")] = torch.zeros(9, 3)
    for shape, owner in (((9, 1), "holder.tensor"), ((9, 3), "model.cache")):
        assert [name.partition(" ")[0] for name in owners(shape)] == [owner], owners(shape)


@check
def names_of_globals():
    globals()[name("outer")] = torch.zeros(10, 1)
    globals()[7] = torch.zeros(10, 2)
    try:
        assert owners((10, 1)) == {"outer"}
    finally:
        for key in [key for key in globals() if type(key) is not str]:
            del globals()[key]


@check
def names_of_one_hash_in_one_namespace():
    same = {
        **counting(str, COMPARED),
        "__hash__": lambda _: note("hash") or 7,
        "__eq__": lambda a, b: note("eq") or a is b,
    }
    cls = Meta.__new__(Meta, "SameHash", (str,), same)

    class Holder:
        pass

    holder = Holder()
    for number in range(4):
        vars(holder)[str.__new__(cls, f"tensor{number}")] = torch.zeros(11, number + 1)
        globals()[str.__new__(cls, f"global{number}")] = torch.zeros(12, number + 1)
    try:
        found = {str(storage["shape"]) for storage in looks()[0]}
        assert found >= {f"[{first}, {number + 1}]" for first in (11, 12) for number in range(4)}
    finally:
        for key in [key for key in globals() if type(key) is not str]:
            del globals()[key]


@check
def names_of_modules_and_files():
    variables = {"tensor": torch.zeros(13, 1), "__builtins__": builtins, "done": threading.Event()}
    variables |= {"__name__": name("theirs"), "__file__": name("/home/ana/theirs.py"), "ready": threading.Event()}
    source = "def wait(inner):\n    ready.set()\n    done.wait(60)\nclass Own:\n    history = [tensor]\n"
    exec(compile(source, name("/home/ana/theirs.py"), "exec"), variables)
    module = types.ModuleType("theirs")
    module.__dict__.update(variables)
    sys.modules["theirs"] = module
    thread = threading.Thread(target=variables["wait"], args=(torch.zeros(13, 2),))
    thread.start()
    variables["ready"].wait(60)
    try:
        assert {owner.partition(" ")[0] for owner in owners((13, 2))} == {"inner"}
        assert len(owners((13, 1))) == 1
    finally:
        del sys.modules["theirs"]
        variables["done"].set()
        thread.join()


@check
def globals_of_another_type():
    variables = dict.__new__(Dict)
    dict.update(variables, {"tensor": torch.zeros(14, 1), "looks": looks, "__builtins__": builtins, "__name__": "own"})
    exec("found = [storage for storage in looks()[0] if storage['shape'] == [14, 1]]", variables)
    assert [owner_text(storage) for storage in dict.get(variables, "found")] == ["tensor"]


@check
def names_of_functions():
    def wait(inner, ready, done):
        ready.set()
        done.wait(60)

    wait.__code__ = wait.__code__.replace(co_name=name("wait"), co_filename=name("/home/ana/train.py"))
    ready, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=wait, args=(torch.zeros(15, 1), ready, done))
    thread.start()
    ready.wait(60)
    try:
        (owner,) = owners((15, 1))
        assert owner.startswith("inner (train.py:"), owner
    finally:
        done.set()
        thread.join()


@check
def constants_of_the_functions_of_tasks():
    async def wait(inner, done):
        await done

    wait.__code__ = wait.__code__.replace(co_consts=(*wait.__code__.co_consts, name("constant"), [1]))
    loop = asyncio.new_event_loop()
    done = loop.create_future()
    task = loop.create_task(wait(torch.zeros(25, 1), done))
    loop.run_until_complete(asyncio.sleep(0))
    (owner,) = owners((25, 1))
    assert owner.startswith("inner (hostile_objects.py:"), owner
    done.set_result(None)
    loop.run_until_complete(task)
    loop.close()


@check
def lists_of_the_program_that_containers_name():
    cls = made(Meta, name("Collector"), object, {"__module__": name("__main__")})
    collector = object.__new__(cls)
    object.__getattribute__(collector, "__dict__")["losses"] = [
        torch.zeros(16, 1, requires_grad=True) * 1 for _ in range(4)
    ]
    globals()["losses"] = List(torch.zeros(17, 1) for _ in range(4))
    assert len(owners((16, 1))) >= 1
    assert len(owners((17, 1))) >= 1
    del globals()["losses"], collector


@check
def states_and_groups_of_other_types():
    weight = torch.nn.Parameter(torch.zeros(18, 1))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    weight.grad = torch.zeros(18, 1)
    optimizer.step()
    group = dict.__new__(Dict)
    dict.update(group, {"params": List([weight]), name("lr"): torch.zeros(18, 2), "flag": object.__new__(Liar)})
    state = dict.__new__(Dict)
    dict.update(
        state, {weight: Dict({name("momentum"): torch.zeros(18, 3), "more": Tuple([1]), "x": object.__new__(Liar)})}
    )
    vars(optimizer).update(param_groups=List([group]), state=state)
    assert owners((18, 3)) == {"optimizer.state[weight].momentum"}
    assert owners((18, 2)) == {"optimizer.param_groups[0]['lr']"}


@check
def a_state_that_is_none():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(18, 4))])
    vars(optimizer).update(param_groups=[object.__new__(Liar)], state=object.__new__(Liar))
    assert looks()


@check
def an_exception_that_holds_a_tensor():
    error = Exception.__new__(Error)
    try:
        inner = torch.zeros(19, 1)
        raise error
    except Exception as caught:  # noqa: BLE001
        kept = caught
        del inner
    assert looks()
    del kept, error


@check
def keywords_of_a_partial_function():
    held = partial(print, **{name("tensor"): torch.zeros(20, 1)})
    assert [name.partition(" ")[0] for name in owners((20, 1))] == ["tensor"], owners((20, 1))
    del held


@check
def modules_that_answer_anything():
    class Lazy(types.ModuleType):
        __dict__ = counted_property("module.__dict__", lambda _: {})
        __class__ = counted_property("module.__class__", lambda _: type)

        def __getattribute__(self, name):
            note(f"module.{name}")
            return types.ModuleType.__getattribute__(self, name)

        def __getattr__(self, name):
            note(f"module.{name}")
            return self

    names = ("lazy", "IPython.core.interactiveshell", "torch._C._dynamo.none")
    before = {key: sys.modules.get(key) for key in names}
    for key in names:
        sys.modules[key] = Lazy(key, "a lazy module")
        types.ModuleType.__dict__["__dict__"].__get__(sys.modules[key])["__file__"] = name(f"/home/ana/{key}.py")
    sys.modules["an object"] = object.__new__(Liar)
    sys.modules["theirs"] = types.ModuleType("theirs")
    sys.modules["theirs"].__getattr__ = lambda key: note(f"module.{key}")
    sys.modules["theirs"].__file__ = "/home/ana/theirs.py"
    main, sys.modules["__main__"] = sys.modules["__main__"], sys.modules["lazy"]
    try:
        assert looks()
    finally:
        sys.modules["__main__"] = main
        for key in (*names, "an object", "theirs"):
            if before.get(key) is None:
                del sys.modules[key]
            else:
                sys.modules[key] = before[key]


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.held = object.__new__(Liar)
        setattr(ctx, name("named"), torch.zeros(21, 2))
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


@check
def nodes_of_the_program():
    result = Double.apply(torch.zeros(21, 1, requires_grad=True) * 3).exp()
    assert looks()
    del result


class Storage(torch.UntypedStorage):
    def nbytes(self):
        note("storage.nbytes")
        return 0

    device = counted_property("storage.device", lambda _: torch.device("meta"))


@check
def storages_of_the_program():
    tensor = torch.zeros(22, 1)
    own = torch.zeros(0).set_(Storage(400), 0, (22, 2))
    assert len(owners((22, 1))) == 1
    assert len(owners((22, 2))) == 1
    del tensor, own


def during_a_search(action):
    """Do something in the middle of each look."""
    original = search.VariableSearch.search

    def interrupted(*arguments):
        action()
        return original(*arguments)

    search.VariableSearch.search = interrupted
    try:
        return looks()
    finally:
        search.VariableSearch.search = original


class Handler:
    """A signal handler that computes: its results have a graph where the program's have one."""

    __hash__, __eq__ = counted(object, "__hash__"), counted(object, "__eq__")

    def __init__(self):
        self.graphs, self.files = [], []

    def __getattr__(self, name):
        note(f"handler.{name}")
        raise AttributeError(name)

    def __call__(self, number, frame):
        self.files.append(frame.f_code.co_filename)
        self.graphs.append((torch.ones(2, requires_grad=True) * 2).requires_grad)


def look_while(reader, change):
    """A look by variables, with a change before the elements of each deque or set are read."""

    def changed_then_read(*arguments):
        change()
        return islice(*arguments)

    variables.islice = changed_then_read
    try:
        problems, found = look("walk", reader)
    finally:
        variables.islice = islice
    assert problems == []
    return found["is_complete"], {owner_text(storage).partition(" ")[0] for storage in found["storages"]}


@check
def a_container_that_changes_while_it_is_read_costs_nothing_else():
    reader = TorchReader()
    for held, change in changing():
        kept = [torch.zeros(23, 1)]
        is_complete, owners = look_while(reader, change)
        assert not is_complete
        assert "kept[0]" in owners
        for value in [value for value in held if type(value) is object]:
            held.remove(value)
        is_complete, owners = look_while(reader, object)
        assert is_complete
        assert "held[0]" in owners, owners
        del kept, held


@check
def a_container_that_changes_once_is_read_again():
    for held, change in changing():
        left = [change]
        is_complete, owners = look_while(TorchReader(), lambda left=left: left and left.pop()())
        assert is_complete
        assert any(owner.startswith("held[") for owner in owners), owners
        del held


def changing():
    """Containers, each with a function that changes it."""
    for held in (deque([torch.zeros(24, 1)]), {torch.zeros(24, 2)}):
        add = held.append if type(held) is deque else held.add
        yield held, map(add, iter(object, None)).__next__


def settings(number):
    """What the kernel calls for a signal, and with which flags."""
    action = held_signals._action(number).raw
    return action[:8], action[8 + 128 : 8 + 128 + 4]  # `sa_handler`, and `sa_flags` after `sa_mask`


@check
def a_signal_handler_that_computes_runs_after_the_look():
    handler = Handler()
    before = signal.signal(signal.SIGUSR1, handler)
    signal.siginterrupt(signal.SIGUSR1, False)
    flags = settings(signal.SIGUSR1)
    try:
        during_a_search(lambda: signal.raise_signal(signal.SIGUSR1))
        assert signal.getsignal(signal.SIGUSR1) is handler
        assert settings(signal.SIGUSR1) == flags
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(handler.graphs) >= len(WAYS) * LOOKS
    assert all(handler.graphs)
    assert set(handler.files) == {__file__}


@check
def what_a_signal_handler_raises_reaches_the_program():
    def handle(_number, _frame):
        raise RuntimeError("of the program")

    before = signal.signal(signal.SIGUSR2, handle)
    reached = False
    try:
        during_a_search(lambda: signal.raise_signal(signal.SIGUSR2))
    except RuntimeError as error:
        reached = str(error) == "of the program" and signal.getsignal(signal.SIGUSR2) is handle
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert reached
    assert not held_signals._signals.held


@check
def a_signal_handler_that_raises_while_others_are_replaced():
    def handle(_number, _frame):
        raise TimeoutError("of the program")

    def profile(frame, event, _argument):
        is_place = event == "c_call" and frame.f_code is held_signals._Signals.hold.__code__
        if is_place and frame.f_locals.get("number") == signal.SIGALRM:
            signal.raise_signal(signal.SIGHUP)  # its handler is replaced already
            signal.raise_signal(signal.SIGALRM)

    came = []
    hung_up = signal.signal(signal.SIGHUP, lambda *_: came.append("SIGHUP"))
    alarmed = signal.signal(signal.SIGALRM, handle)
    sys.setprofile(profile)
    try:
        held_signals.without_handlers(lambda: came.append("the look"))
    except TimeoutError:
        came.append("what was raised")
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGHUP, hung_up)
        signal.signal(signal.SIGALRM, alarmed)
    assert came == ["SIGHUP", "what was raised"], came
    assert not held_signals._signals.held


@check
def a_signal_without_a_handler_that_comes_while_the_probe_tries_one():
    def profile(frame, event, _argument):
        if event == "c_return" and frame.f_code is held_signals._pythons_function.__wrapped__.__code__:
            signal.raise_signal(signal.SIGURG)

    looks = []
    held_signals._pythons_function.cache_clear()
    sys.setprofile(profile)
    try:
        held_signals.without_handlers(lambda: looks.append([*held_signals._signals.noted]))
    finally:
        sys.setprofile(None)
    assert looks == [[signal.SIGURG]]
    assert not held_signals._signals.noted


@check
def a_signal_that_a_library_handles_is_left_alone():
    libc = ctypes.CDLL(None)
    before = signal.signal(signal.SIGUSR1, print)
    calls = []
    note_call = ctypes.CFUNCTYPE(None, ctypes.c_int)(calls.append)
    libc.signal(signal.SIGUSR1, note_call)
    try:
        during_a_search(lambda: libc["raise"](signal.SIGUSR1))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(calls) >= len(WAYS) * LOOKS


@check
def a_child_that_a_thread_forks_during_a_look_has_its_handlers():
    statuses = []

    def fork():
        child = os.fork()
        if child == 0:
            os._exit(3 if signal.getsignal(signal.SIGUSR1) is print and not held_signals._signals.held else 4)
        statuses.append(os.waitpid(child, 0)[1] >> 8)

    def fork_in_a_thread():
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()

    os.register_at_fork(after_in_child=lifecycle._close_in_child)
    before = signal.signal(signal.SIGUSR1, print)
    try:
        during_a_search(fork_in_a_thread)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert set(statuses) == {3}, statuses


run()
