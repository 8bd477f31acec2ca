"""The lines that assign a variable and that call a function, from the bytecode of this Python."""

import ast
import sys
import warnings

import pytest

from gputui.probe.inventory.lines import Attribute, Element, Global, Wanted, name_assignments
from gputui.probe.search.growing_lines import (
    calls,
    lines_of_source_that_assign,
    lines_that_assign,
    lines_that_assign_global,
    lines_that_call,
    mentions,
)


def assigns(model, torch):
    out = model(1)
    first, second = model(2), model(3)
    total = 0
    for step in range(3):
        total = total + step
        total += 1
    captured = model(4)

    def inner():
        torch.cuda.empty_cache()
        return captured

    if total:
        torch.cuda.empty_cache()
    return out, first, second, inner


FIRST = assigns.__code__.co_firstlineno
LINES = {"out": "1", "first": "2", "second": "2", "total": "3, 5, 6", "step": "4", "captured": "7", "model": ""}


@pytest.mark.parametrize(("variable", "expected"), LINES.items(), ids=LINES)
def test_the_lines_that_assign_a_variable(variable, expected):
    lines = lines_that_assign(assigns.__code__, variable, {})
    numbers = [str(FIRST + int(number)) for number in expected.split(", ")] if expected else []
    assert lines == (f"test_lines.py:{', '.join(numbers)} in assigns" if expected else "")


def test_the_lines_that_call_a_function_also_inside_it():
    assert lines_that_call(assigns.__code__, "empty_cache", {}) == [
        f"test_lines.py:{FIRST + 14} in assigns",
        f"test_lines.py:{FIRST + 10} in inner",
    ]
    assert lines_that_call(assigns.__code__, "synchronize", {}) == []


class Trainer:
    def __init__(self):
        self.hidden = None
        self.meters = {"loss": 0.0}
        self.model = None

    def step(self, loss):
        self.hidden = loss
        str(self.meters)
        self.meters["loss"] += loss

    def reset(self):
        self.hidden = None


METHODS = [Trainer.__init__.__code__, Trainer.step.__code__, Trainer.reset.__code__]
STEP, RESET = Trainer.step.__code__.co_firstlineno, Trainer.reset.__code__.co_firstlineno
WRITTEN = {
    "an attribute": (
        Attribute("", "hidden", METHODS),
        f"test_lines.py:{STEP + 1} in step and test_lines.py:{RESET + 1} in reset",
    ),
    "an attribute of __init__ alone": (Attribute("", "model", METHODS), f"test_lines.py:{STEP - 2} in __init__"),
    "another attribute": (Attribute("", "other", METHODS), ""),
    "an entry of a dictionary": (Element("", "meters", METHODS), f"test_lines.py:{STEP + 3} in step"),
}


@pytest.mark.parametrize(("written", "lines"), WRITTEN.values(), ids=WRITTEN)
def test_the_lines_that_write_an_attribute_or_an_entry(written, lines):
    assert written.lines({}) == lines


def assigns_globals(model):
    global kept, step  # noqa: PLW0603
    kept = model(1)
    for step in range(2):
        local = model(step)
    return local


SOURCE = """x = 1
out, (y, *z) = f(x)

def inner():
    out = 2

class Held:
    out = 3

if x:
    for out in range(3):
        out += 1
total: float = (n := sum(f for f in x))
"""


@pytest.mark.parametrize(("variable", "offset"), [("kept", 2), ("step", 3)])
def test_the_lines_that_assign_a_global_variable_do_not_count_local_ones(variable, offset):
    codes = [assigns.__code__, assigns_globals.__code__]
    first = assigns_globals.__code__.co_firstlineno
    assert lines_that_assign_global(codes, variable, {}) == f"test_lines.py:{first + offset}"
    assert lines_that_assign_global(codes, "local", {}) == lines_that_assign_global(codes, "out", {}) == ""


@pytest.mark.parametrize("other", ["\nout = 1", ""])
def test_two_variables_of_one_name_get_a_line_only_if_it_is_that_of_both(other):
    codes = [[compile(SOURCE, "/tmp/train.py", "exec")], [compile(other, "/tmp/losses.py", "exec")]]
    variables = [Global(("out",), code, []) for code in codes]
    for wanted, owner in ((variables, ("out",)), ([variables[0]] * 2, ("out", "train.py:2, 11, 12"))):
        storages = [{"owner": ("out",), "kept_by": ()}, {"owner": ("model",), "kept_by": ("out",)}]
        name_assignments(storages, Wanted(wanted, None, {}))
        assert storages == [{"owner": owner, "kept_by": ()}, {"owner": ("model",), "kept_by": owner}]


def test_the_lines_of_a_module():
    code = compile(SOURCE, "/tmp/train.py", "exec")
    assert lines_that_assign_global([code], "out", {}) == "train.py:2, 11, 12"
    assert lines_that_assign_global([code], "out", {"/tmp/train.py": "cell 3"}) == "cell 3:2, 11, 12"


@pytest.mark.parametrize(
    ("variable", "lines"), [("out", "2, 11, 12"), ("z", "2"), ("total", "13"), ("n", "13"), ("x", "1"), ("f", "")]
)
def test_the_lines_of_a_cell(variable, lines):
    assert lines_of_source_that_assign(SOURCE, variable) == lines
    assert lines_of_source_that_assign(SOURCE + "\nthis wrong", variable) == ""


WARNED_OF = r"""digits, text = re.findall('\d', s), b'\400'
quoted = 'it\'s' + r'\'' + f'\N{EM DASH}\{s}\\' + \
    '\q\
'
after = 1if quoted else 2  # \d
x1in = 0.5or after
"""


@pytest.mark.parametrize(
    ("variable", "lines"), [("digits", "1"), ("text", "1"), ("quoted", "2"), ("after", "5"), ("x1in", "6")]
)
def test_a_cell_is_read_without_its_warnings(variable, lines):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        ast.parse(WARNED_OF)
        by_python = len(warned)
        assert lines_of_source_that_assign(WARNED_OF, variable) == lines
    assert len(warned) == by_python > 0


def test_a_cell_is_parsed_once():
    source = "first = 1\nsecond = 2\n" * 4
    events = []
    sys.setprofile(lambda frame, event, _argument: events.append((event, frame.f_code)))
    try:
        lines = [lines_of_source_that_assign(source, variable) for variable in ("first", "second", "first")]
    finally:
        sys.setprofile(None)
    assert lines == ["1, 3, 5", "2, 4, 6", "1, 3, 5"]
    assert events.count(("call", ast.parse.__code__)) == 1


def with_keyword(step):
    step(create_graph=True)


class Hostile:
    __hash__ = None

    def __eq__(self, other):
        raise AssertionError


def test_a_call_is_found_by_its_keyword_argument_and_no_constant_is_compared():
    code = with_keyword.__code__
    assert calls(code, "create_graph")
    assert not mentions(code, "create_graph")
    (found,) = lines_that_call(code, "create_graph", {})
    assert found.startswith(f"test_lines.py:{code.co_firstlineno + 1} ")
    hostile = code.replace(co_consts=(*code.co_consts, (Hostile(), "create_graph")))
    assert lines_that_call(hostile, "create_graph", {}) == [found]
    assert not calls(hostile, "something_else")
