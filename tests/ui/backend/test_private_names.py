"""Textual's private names may change: the table of those in use is correct, complete and limited to `ui/backend`."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import gputui
from gputui.ui.backend.private_names import PRIVATE_NAMES, PrivateName

PACKAGE = Path(gputui.__file__).parent
BACKEND = PACKAGE / "ui" / "backend"
FILES = sorted(path for path in (PACKAGE / "ui").rglob("*.py") if path.name != "private_names.py")
LIBRARIES = ("textual", "rich")
NAMEDTUPLE = {"_replace", "_asdict", "_fields", "_make"}
"""Public names of Python's named tuples that look private."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


@cache
def names_of_class(cls: type) -> frozenset[str]:
    """The private names that a class declares in its source as methods, class attributes or attributes of `self`."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    return frozenset(filter(is_private, (name for node in ast.walk(tree) for name in declared(node))))


def declared(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
        yield node.attr


def is_own(node: ast.expr) -> bool:
    """Whether this is `self`, `cls` or `super()`."""
    if isinstance(node, ast.Call):
        node = node.func
    return isinstance(node, ast.Name) and node.id in ("self", "cls", "super")


def inherited(cls: type) -> frozenset[str]:
    """The private names that a class inherits from Textual or Rich."""
    bases = [base for base in cls.__mro__ if base.__module__.partition(".")[0] in LIBRARIES]
    return frozenset[str]().union(*map(names_of_class, bases))


def used_private_names(path: Path) -> set[str]:
    """The private names of Textual and Rich that a file imports, overrides, or reads from an object."""
    tree = ast.parse(path.read_text())
    module = importlib.import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
    used = {name for node in ast.walk(tree) for name in used_by(node)}
    for node in ast.walk(tree):
        cls = getattr(module, node.name, None) if isinstance(node, ast.ClassDef) else None
        if cls is not None:
            mentioned = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute) and is_own(part.value)}
            mentioned |= {name for part in ast.walk(node) for name in declared(part)}
            used |= mentioned & inherited(cls)
    return used


def used_by(node: ast.AST) -> Iterator[str]:
    """The private names that a node uses of another object or module; those of `self` depend on its bases."""
    if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in LIBRARIES:
        is_hidden = any(map(is_private, node.module.split(".")))
        yield from (alias.name for alias in node.names if is_hidden or is_private(alias.name))
    elif isinstance(node, ast.Import):
        names = (alias.name for alias in node.names if alias.name.partition(".")[0] in LIBRARIES)
        yield from (name for name in names if any(map(is_private, name.split("."))))
    elif isinstance(node, ast.Attribute) and is_private(node.attr) and not is_own(node.value):
        yield from {node.attr} - NAMEDTUPLE


def is_in_backend(path: Path) -> bool:
    return path.is_relative_to(BACKEND)


@pytest.mark.parametrize("entry", PRIVATE_NAMES, ids=lambda entry: f"{entry.where} {entry.name}")
def test_textual_still_has_the_private_name(entry: PrivateName) -> None:
    owner = pkgutil.resolve_name(entry.where)
    missing = f"{entry.where} has no {entry.name} any more, which gputui uses: {entry.purpose}"
    if inspect.ismodule(owner):
        assert hasattr(owner, entry.name), missing
    else:
        assert entry.name in frozenset[str]().union(*map(names_of_class, owner.__mro__[:-1])), missing
    if entry.parameters:
        signature = inspect.signature(getattr(owner, entry.name))
        assert tuple(signature.parameters) == entry.parameters, f"{entry.where} {entry.name}: {entry.purpose}"


def test_no_private_name_is_used_outside_the_backend() -> None:
    outside = [path for path in FILES if not is_in_backend(path)]
    assert {path: names for path in outside if (names := used_private_names(path))} == {}


def test_the_table_has_exactly_the_names_in_use() -> None:
    used = set[str]().union(*map(used_private_names, filter(is_in_backend, FILES)))
    assert used == {entry.name for entry in PRIVATE_NAMES}


def test_every_kind_of_private_name_is_detected(tmp_path: Path) -> None:
    """Checks `used_by` on source code with one private name of each kind."""
    source = """
    from textual._compositor import LayoutUpdate
    import textual._ansi_sequences
    def stop(app):
        app._exit = app.state._replace(x=1)
    """
    tree = ast.parse(textwrap.dedent(source))
    used = {name for node in ast.walk(tree) for name in used_by(node)}
    assert used == {"LayoutUpdate", "textual._ansi_sequences", "_exit"}
