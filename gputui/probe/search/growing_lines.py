"""The lines of the program that add to a container, assign a variable or call a function.

`losses.append(loss)`, `cache[step] = x`, `outputs += [x]`; `out = model(x)`; `torch.cuda.empty_cache()`. Read from the
bytecode of the functions nearby, in the probe's thread, after the look.
"""

from __future__ import annotations

import ast
import dis
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from types import CodeType, FunctionType, MethodType
from typing import Any, TypeVar

from gputui.probe.objects import plain
from gputui.probe.objects.plain import HEAP_TYPE
from gputui.probe.objects.stacks import PACKAGES, place
from gputui.probe.objects.torch_types import AnyObject

Result = TypeVar("Result")

ADDS = frozenset(
    {"append", "appendleft", "extend", "extendleft", "insert", "add", "update", "setdefault", "push", "put"}
)
VARIABLE = ("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL", "LOAD_NAME")
ATTRIBUTE = ("LOAD_ATTR",)
EITHER = VARIABLE + ATTRIBUTE
CALLED = ("LOAD_METHOD", "LOAD_ATTR", *VARIABLE)
KEYWORDS = ("KW_NAMES", "LOAD_CONST")
"""The instructions for the names of a call's keyword arguments: in Python 3.11 and 3.12, and in other versions."""
LOCAL = ("STORE_FAST", "STORE_DEREF")
GLOBAL = ("STORE_GLOBAL", "STORE_NAME")
STORED_ATTRIBUTE = ("STORE_ATTR",)
SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
"""Syntax that has variables of its own."""
KNOWN_AT_MOST = 4096
FUNCTIONS_AT_MOST = 64
"""How many functions of one class or module may be read for one container."""
SOURCES_AT_MOST = 64
"""How many cells of a notebook are searched for the line that assigns a variable."""
LINES_AT_MOST = 3
"""How many lines of one function are named that assign a variable or call a function."""

_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_INDEX = re.compile(r"\[[^\]]*\]")
_WARNED_OF = re.compile(r"\\(?:N\{[^{}\n]*\}|[^{}\r\n]|(?=[{}]))|\b(\d[\d_.]*)(?=(?:and|else|for|if|in|is|not|or)\b)")
"""What Python may warn of when it parses: an escape such as `\\d`, and a number joined to a word, as in `1if x`."""
_known: dict[tuple[str, int, str, str, tuple[str, ...]], Any] = {}
"""What was found in a function, by its file, first line and name, the variable, and the instructions."""


def variable_of(name: str) -> str:
    """The last variable or attribute of a name: `outputs` of `trainer.callbacks[0].outputs`."""
    return _INDEX.sub("", name).rpartition(".")[2]


def functions_of(holder: AnyObject, variable: str) -> list[CodeType]:
    """The code of the holder if it is a function; otherwise of those methods of its class that mention the variable."""
    if type(holder) is MethodType:
        return [holder.__func__.__code__] if type(holder.__func__) is FunctionType else []
    if type(holder) is FunctionType:
        return [holder.__code__]
    classes = (cls for cls in plain.mro_of(type(holder)) if plain.flags_of(cls) & HEAP_TYPE)
    namespaces = map(plain.namespace_of, classes)
    return [code for namespace in namespaces for code in mentioning(namespace, variable)][:FUNCTIONS_AT_MOST]


def mentions(code: CodeType, variable: str) -> bool:
    """Whether code, or a function inside it, has a variable or an attribute of this name."""
    return (
        variable in code.co_names
        or variable in code.co_varnames
        or variable in code.co_freevars
        or variable in code.co_cellvars
        or any(type(constant) is CodeType and mentions(constant, variable) for constant in code.co_consts)
    )


def calls(code: CodeType, word: str) -> bool:
    """Whether code, or a function inside it, mentions a function, or passes a keyword argument, of this name."""
    return mentions(code, word) or _passes(code, word)


def _passes(code: CodeType, word: str) -> bool:
    inner = (constant for constant in code.co_consts if type(constant) is CodeType)
    return any(_has_keyword(constant, word) for constant in code.co_consts) or any(
        _passes(each, word) for each in inner
    )


def _has_keyword(constant: Any, word: str) -> bool:  # noqa: ANN401
    """Whether a constant of code names the keyword arguments of a call, this one among them.

    Libraries that write bytecode put any object among the constants: only strings are compared, which runs no code.
    """
    return type(constant) is tuple and set(map(type, constant)) == {str} and word in constant


def mentioning(
    namespace: Any,  # noqa: ANN401
    word: str,
    is_in: Callable[[CodeType, str], bool] = mentions,
) -> Iterator[CodeType]:
    """The code of those functions in a namespace in which `is_in` finds the word."""
    for value in list(namespace.values()):
        if type(value) is FunctionType and is_in(value.__code__, word):
            yield value.__code__


def line_of_growth(codes: Iterable[CodeType], variable: str, loads: tuple[str, ...], files: Mapping[str, str]) -> str:
    """`train.py:31 in step`: the first place in these functions that adds to the variable; "" without any.

    `loads` are the instructions that count as reading it: `VARIABLE`, `ATTRIBUTE` or `EITHER`. `files` has names for
    some files, such as "cell 12". A line of an installed package counts only if the program has none, and a line of
    the standard library never does.
    """
    found: list[CodeType] = list(codes)
    of_program = [code for code in found if not is_of_library(code)]
    ordered = [*of_program, *(code for code in found if is_of_package(code))]
    lines = (_once(code, variable, loads, partial(_line, code, variable, loads, files)) for code in ordered)
    return next(filter(None, lines), "")


def is_of_package(code: CodeType) -> bool:
    """Whether code is of an installed package."""
    return any(map(plain.text(code.co_filename).__contains__, PACKAGES))


def is_of_library(code: CodeType) -> bool:
    """Whether code is of an installed package or of the standard library, where no user changes a line."""
    return plain.text(code.co_filename).startswith(_STANDARD_LIBRARY) or is_of_package(code)


def lines_that_assign(code: CodeType, variable: str, files: Mapping[str, str], stores: tuple[str, ...] = LOCAL) -> str:
    """`train.py:31, 40 in step`: where this function assigns its local variable; "" if it does not."""
    return _place(code, _numbers_that_assign(code, variable, stores), files)


def lines_that_assign_global(codes: Iterable[CodeType], variable: str, files: Mapping[str, str]) -> str:
    """`train.py:12, 98`: where these codes, all of one file, assign a global variable; "" if they do not."""
    numbers, path = set(), ""
    for code in codes:
        found = _numbers_that_assign(code, variable, GLOBAL)
        path = plain.text(code.co_filename) if found else path
        numbers.update(found)
    lines = ", ".join(map(str, sorted(numbers)[:LINES_AT_MOST]))
    return f"{files.get(path) or path.rpartition('/')[2]}:{lines}" if lines else ""


def lines_of_source_that_assign(source: str, variable: str) -> str:
    """`3, 7`: where the code of a cell assigns a variable, not counting the functions in it; "" if it does not."""
    numbers = _assignments(source).get(variable, ()) if variable in source else ()
    return ", ".join(map(str, sorted(numbers)[:LINES_AT_MOST]))


@lru_cache(SOURCES_AT_MOST)
def _assignments(source: str) -> dict[str, set[int]]:
    """The lines at which the code of a cell assigns each variable; a cell is parsed once, as its text does not change.

    What Python would warn of is replaced first: the program decides what a warning does, and may have it run its code.
    """
    try:
        pending: list[ast.AST] = [ast.parse(_WARNED_OF.sub(r"\1 ", source))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, set[int]] = {}
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.id, set()).add(node.lineno)
        if not isinstance(node, SCOPES):
            pending += ast.iter_child_nodes(node)
    return found


def lines_that_call(code: CodeType, function: str, files: Mapping[str, str]) -> list[str]:
    """Where this function, and those inside it, call a function, or pass a keyword argument, of this name."""
    lines = _place(code, _numbers_with(code, partial(_calls, code, function)), files)
    inner = (constant for constant in code.co_consts if type(constant) is CodeType and calls(constant, function))
    return [*([lines] if lines else []), *(line for each in inner for line in lines_that_call(each, function, files))]


def _calls(code: CodeType, function: str, instruction: dis.Instruction) -> bool:
    if instruction.opname in KEYWORDS:
        return _has_keyword(code.co_consts[instruction.arg or 0], function)  # not in `argval` in Python 3.11
    return instruction.opname.startswith(CALLED) and function in _names(instruction)


def _numbers_that_assign(code: CodeType, variable: str, stores: tuple[str, ...]) -> list[int]:
    read = partial(_numbers_with, code, lambda instruction: variable in _stored(instruction, stores))
    return _once(code, variable, stores, read)


def _numbers_with(code: CodeType, is_wanted: Callable[[dis.Instruction], bool]) -> list[int]:
    line, lines = 0, []
    for instruction in dis.get_instructions(code):
        if instruction.starts_line:
            line = _number(instruction, line)
        if is_wanted(instruction) and line not in lines:
            lines.append(line)
    return lines


def _place(code: CodeType, lines: list[int], files: Mapping[str, str]) -> str:
    return place(code, ", ".join(map(str, lines[:LINES_AT_MOST])), files) if lines else ""


def _names(instruction: dis.Instruction) -> tuple[str, ...]:
    """The variables that an instruction loads or stores: two for some instructions of Python 3.13 and newer."""
    value = instruction.argval
    return value if type(value) is tuple else (value,)


def _stored(instruction: dis.Instruction, stores: tuple[str, ...]) -> tuple[str, ...]:
    if not instruction.opname.startswith(stores):
        return ()
    names = _names(instruction)
    return names[:1] if "LOAD" in instruction.opname else names


def _once(code: CodeType, variable: str, opnames: tuple[str, ...], read: Callable[[], Result]) -> Result:
    """What `read` finds in the bytecode of a function: it is called once, as bytecode does not change."""
    key = (plain.text(code.co_filename), code.co_firstlineno, plain.text(code.co_name), variable, opnames)
    if key not in _known:
        if len(_known) >= KNOWN_AT_MOST:
            _known.clear()
        _known[key] = read()
    found: Result = _known[key]
    return found


def _line(code: CodeType, variable: str, loads: tuple[str, ...], files: Mapping[str, str]) -> str:
    """The first place that adds to the variable, in this function or in one that is defined inside it."""
    if not mentions(code, variable):
        return ""
    line = is_loaded = 0
    for instruction in dis.get_instructions(code):
        if instruction.starts_line:
            line, is_loaded = _number(instruction, line), 0
        if instruction.opname.startswith(loads) and variable in _names(instruction):
            is_loaded = 1
        elif is_loaded and _adds(instruction):
            return place(code, line, files)
    inner = (constant for constant in code.co_consts if type(constant) is CodeType)
    return next(filter(None, (_line(function, variable, loads, files) for function in inner)), "")


def _number(instruction: dis.Instruction, line: int) -> int:
    number: Any = getattr(instruction, "line_number", None) or instruction.starts_line  # a flag from Python 3.13 on
    return number if type(number) is int else line


def _adds(instruction: dis.Instruction) -> bool:
    if instruction.opname in ("LOAD_METHOD", "LOAD_ATTR"):
        return instruction.argval in ADDS
    is_in_place = instruction.opname == "BINARY_OP" and instruction.argrepr == "+="
    return is_in_place or instruction.opname in ("STORE_SUBSCR", "INPLACE_ADD")
