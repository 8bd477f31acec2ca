"""Gives the probe's modules Python's own imports and builtins, whatever the program has put under these names.

A program may have a file `typing.py` of its own beside its script, on PYTHONPATH or in `sys.modules`: the probe neither
runs nor changes it. Where files or import hooks of the program could hide any module of the standard library, the probe
loads copies, as `gputui.probe.standard.<name>`, of the modules that the program has not imported from there. All others
are shared with the program. Functions of `builtins` that the program has replaced are not called either.

This text also runs in a program before anything can be imported there, `__future__` included: see `bootstrap`.
"""

import builtins
import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType, ModuleType
    from typing import Any

_FUNCTIONS = (
    *("__build_class__", "abs", "all", "any", "callable", "chr", "compile", "delattr", "dir", "divmod", "eval", "exec"),
    *("format", "getattr", "globals", "hasattr", "hash", "hex", "id", "isinstance", "issubclass", "iter", "len"),
    *("locals", "max", "min", "next", "ord", "pow", "repr", "round", "setattr", "sorted", "sum", "vars"),
)
"""The standard library, which the probe shares with the program, calls these: if one is replaced, the probe is off."""
_OFTEN_REPLACED = ("breakpoint", "input", "open", "print")
_IS_MADE_BY_PYTHON_CODE = 1 << 9
"""`Py_TPFLAGS_HEAPTYPE`, a flag that the static classes of `builtins` do not have."""
_Function: "Any" = gc.collect.__class__


def _replaced(names: "Sequence[str]") -> "list[str]":
    """The names whose value in `builtins` is no function of Python's own. Calls no builtin: it may be the program's."""
    return [name for name in names if builtins.__dict__.get(name).__class__ is not _Function]


def _original_builtins() -> "dict[str, Any]":
    """The builtins as Python has made them, by name. Calls no builtin either."""
    values = {**builtins.__dict__}
    if _replaced((*_FUNCTIONS, *_OFTEN_REPLACED)):
        values["open"] = sys.modules["_io"].open
        found: list[Any] = gc.get_referrers(builtins)  # as the interpreter keeps the original functions
        made = [value for value in found if value.__class__ is _Function and value.__self__ is builtins]
        values.update({value.__name__: value for value in made})
    classes: list[Any] = [_Function.__mro__[-1]]
    subclasses_of = classes[0].__class__.__subclasses__
    for cls in classes:
        classes += [own for own in subclasses_of(cls) if not own.__flags__ & _IS_MADE_BY_PYTHON_CODE]
    values.update({cls.__name__: cls for cls in classes if cls.__module__ == "builtins" and cls.__name__ in values})
    return values


_not_pythons = _replaced(_FUNCTIONS)
__builtins__ = _original_builtins()  # type: ignore[assignment]  # of all functions defined below

OWN = "gputui"
COPIES = "gputui.probe.standard."
"""The prefix that the probe's copies of standard modules have in `sys.modules`."""
_EXTENSIONS = "lib-dynload"
_SITE = ("site-packages", "dist-packages")
_Module = type(sys)
_machinery: "Any" = sys.modules["_frozen_importlib"]
_path_finder: "Any" = sys.modules["_frozen_importlib_external"].PathFinder
_spec_of = _machinery.ModuleSpec
_dictionary_of: "Any" = vars(_Module)["__dict__"].__get__


def _standard_folders() -> "tuple[str, ...]":
    """The folders of the standard library: of its Python files, and of its extension modules."""
    folder = getattr(sys, "_stdlib_dir", None)
    if folder is None:  # Python 3.10 and older import `os` before any file of the program's, unless called with -S
        folder = _machinery._gcd_import("os").__file__.rpartition("/")[0]
    platform = f"{sys.exec_prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/{_EXTENSIONS}"
    base = f"{sys.base_exec_prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/{_EXTENSIONS}"
    return (folder, f"{folder}/{_EXTENSIONS}", platform, base)


class Importer:
    """Imports modules for the probe. Those that it loads get `builtins` in which `__import__` is `statement`."""

    def __init__(self) -> None:
        self._folders = _standard_folders()
        self._seen_path: list[str] = []
        """`sys.path` when `_hidden` was computed."""
        self._hidden: frozenset[str] = frozenset()
        """The names of standard modules that a folder before the standard library in `sys.path` has, too."""
        self.builtins: dict[str, Any] = {**_original_builtins(), "__import__": self.statement}

    def statement(
        self,
        name: str,
        variables: "Mapping[str, Any] | None" = None,
        _locals: "object" = None,
        names: "Sequence[str] | None" = (),
        level: int = 0,
    ) -> "ModuleType":
        """What an import statement does: `names` are those after `import` in `from name import ...`."""
        if level:
            name = _absolute(name, variables or {}, level)
        if not names:
            module = self.module(name)
            return module if level or "." not in name else self.module(name[: name.index(".")])
        module = self.module(name)
        if "__path__" in _dictionary_of(module):
            for part in names:
                if part != "*" and part not in _dictionary_of(module):
                    self._attempt(f"{name}.{part}")
        return module

    def module(self, name: str) -> "ModuleType":
        """The module of this name: the probe's own, the standard library's, or what the program has imported."""
        if name == OWN or name.startswith(f"{OWN}."):
            return self._own(name)
        found = sys.modules.get(COPIES + name) or sys.modules.get(name)
        if found is not None and self._is_standard(found, name):
            spec: Any = found.__spec__
            if getattr(spec, "_initializing", False):  # another thread is in the middle of importing it
                _machinery._lock_unlock_module(spec.name)
            return found
        top = name.partition(".")[0]
        if top in sys.builtin_module_names and found is None:  # past the finders, which may be the program's
            return _machinery._load(_machinery.BuiltinImporter.find_spec(name))  # type: ignore[no-any-return]
        if top in sys.builtin_module_names or (top in sys.modules and not self._is_in_library(top)):
            return _machinery._gcd_import(name)  # type: ignore[no-any-return]
        if found is None and self._is_in_library(top) and not self._must_be_copied(top):
            return _machinery._gcd_import(name)  # type: ignore[no-any-return]
        return self._own(COPIES + name)

    def _attempt(self, name: str) -> None:
        try:
            self.module(name)
        except ModuleNotFoundError as error:
            if not name.endswith(error.name or name):
                raise

    def _own(self, name: str) -> "ModuleType":
        """A module of gputui or a copy, by its name in `sys.modules`; loads it with `self.builtins` if need be."""
        module = sys.modules.get(name)
        if module is not None and not getattr(module.__spec__, "_initializing", False):
            return module
        above, _, last = name.rpartition(".")
        parent = self._own(above) if above and f"{above}." != COPIES else None
        with _machinery._ModuleLockManager(name):
            module = sys.modules.get(name)
            if module is None:
                module = self._loaded(name, parent)
                if parent is not None:
                    setattr(parent, last, module)
        return module

    def _loaded(self, name: str, parent: "ModuleType | None") -> "ModuleType":
        spec = self._spec(name, parent)
        if spec is None:
            message = f"No module named {name!r}"
            raise ModuleNotFoundError(message, name=name)
        module: ModuleType = _machinery.module_from_spec(spec)
        _dictionary_of(module)["__builtins__"] = self.builtins
        spec._initializing = True
        sys.modules[name] = module
        typing = sys.modules.get("typing")
        is_typing = name == f"{COPIES}typing" and sys.version_info >= (3, 12)
        try:
            if is_typing:  # for the generic classes in it, functions of C look up `typing` there
                sys.modules["typing"] = module
            _execute(spec, module)
        except BaseException:  # whatever it is: half a module may not stay, and the next import tries again
            sys.modules.pop(name, None)
            raise
        finally:
            spec._initializing = False
            if is_typing and typing is not None:
                sys.modules["typing"] = typing
            elif is_typing:
                sys.modules.pop("typing", None)
        return sys.modules.get(name, module)

    def _spec(self, name: str, parent: "ModuleType | None") -> "Any":  # noqa: ANN401
        if parent is None:
            return _path_finder.find_spec(name, self._folders) if name.startswith(COPIES) else None
        loader: Any = getattr(parent.__spec__, "loader", None)
        if type(loader).__name__ == "GputuiImporter":  # the probe was put into a running program
            return loader.find_spec(name)
        folders = list(parent.__path__)
        found = _path_finder.find_spec(name, folders)
        if found is None:  # Python remembers a folder that could not be read once as an empty one
            for folder in folders:
                _forget_content(folder)
            found = _path_finder.find_spec(name, folders)
        return found

    def _is_standard(self, module: "object", name: str) -> bool:
        """Whether an imported module is Python's own, or has a name that no module of the standard library has."""
        if not issubclass(type(module), _Module):
            return False
        variables = _dictionary_of(module)
        spec = variables.get("__spec__")
        if type(spec) is not _spec_of:
            return False
        origin = spec.origin
        if type(origin) is not str:
            return False
        if origin in ("built-in", "frozen"):
            return True
        if origin.startswith(self._folders) and not any(map(origin.__contains__, _SITE)):
            return True
        return not self._is_in_library(name.partition(".")[0])

    def _is_in_library(self, top: str) -> bool:
        names = getattr(sys, "stdlib_module_names", None)
        return top in names if names is not None else _path_finder.find_spec(top, self._folders) is not None

    def _must_be_copied(self, top: str) -> bool:
        """Whether an ordinary import of a standard module could find a file of the program's for it or what it imports.

        An extension module imports no others: unless a hook could find it, it is copied only if its own name is hidden.
        """
        if self._seen_path != sys.path:
            self._seen_path = list(sys.path)
            self._hidden = frozenset().union(*map(self._hidden_by, self._before_library()))
        if any(map(self._is_of_the_program, sys.meta_path)):
            return True
        if not self._hidden:
            return False
        spec = _path_finder.find_spec(top, self._folders)
        is_of_c = spec is not None and spec.origin is not None and not spec.origin.endswith(".py")
        return top in self._hidden or not is_of_c

    def _before_library(self) -> "list[str]":
        before = []
        for folder in sys.path:
            if folder in self._folders:
                break
            if type(folder) is str:
                before.append(folder or ".")
        return before

    def _hidden_by(self, folder: str) -> "frozenset[str]":
        names = getattr(sys, "stdlib_module_names", None) or frozenset().union(*map(_names_in, self._folders))
        return names & _names_in(folder)

    def _is_of_the_program(self, finder: "object") -> bool:
        cls = finder if issubclass(type(finder), type) else type(finder)
        name = type.__dict__["__module__"].__get__(cls)
        origin = getattr(sys.modules.get(name), "__file__", None) if type(name) is str else None
        is_known = name in ("_frozen_importlib", "_frozen_importlib_external", "_gputui_bootstrap")
        return not is_known and not (type(origin) is str and any(map(origin.__contains__, (*_SITE, *self._folders))))


def _execute(spec: "Any", module: "ModuleType") -> None:  # noqa: ANN401
    """Run a module. The code of gputui's own modules gets no file, so that no tracer takes it for the program's."""
    is_own = not spec.name.startswith(COPIES) and hasattr(spec.loader, "get_code")  # else a copy, or from memory
    code = spec.loader.get_code(spec.name) if is_own else None
    if code is None:
        spec.loader.exec_module(module)
    else:
        _hide(code, spec.name, is_package=spec.submodule_search_locations is not None)
        exec(code, _dictionary_of(module))


def _hide(code: "CodeType", name: str, *, is_package: bool = False) -> None:
    """Name the file of this code, and of all code in it, `<gputui/probe/running.py>`, as in a probe that was put in.

    coverage and others list code by its file, and leave out code that has none.
    """
    sys.modules["_imp"]._fix_co_filename(code, f"<{name.replace('.', '/')}{'/__init__' if is_package else ''}.py>")


def builtins_refusal() -> str:
    """Why the probe cannot work here: the standard library would call functions of the program; "" if it can."""
    return f"the program has replaced Python's own {', '.join(_not_pythons)}" if _not_pythons else ""


def _forget_content(folder: str) -> None:
    """Have Python read a folder again when it looks for a module there."""
    finder = sys.path_importer_cache.get(folder, folder)
    if finder is None:
        del sys.path_importer_cache[folder]
    elif finder is not folder:
        finder.invalidate_caches()  # type: ignore[union-attr]


def _absolute(name: str, variables: "Mapping[str, Any]", level: int) -> str:
    """The absolute name that a relative import means; in a copy, that of the standard module."""
    package = variables.get("__package__") or variables["__name__"]
    for _ in range(level - 1):
        package = package.rpartition(".")[0]
    absolute = f"{package}.{name}" if name else package
    return absolute[len(COPIES) :] if absolute.startswith(COPIES) else absolute


def _names_in(folder: str) -> "frozenset[str]":
    """The names of the modules and packages in a folder; none of a folder that cannot be read."""
    posix = sys.modules["posix"]
    try:
        entries = posix.listdir(folder)
    except OSError:
        return frozenset()
    return frozenset(entry.partition(".")[0] for entry in entries if "." in entry or _is_package(f"{folder}/{entry}"))


def _is_package(folder: str) -> bool:
    try:
        sys.modules["posix"].stat(f"{folder}/__init__.py")
    except OSError:
        return False
    return True


if __name__ == f"{OWN}.probe.own_imports":  # else the text runs in a program before anything can be imported there
    _hide(sys._getframe().f_code, __name__)
own_import = Importer()
