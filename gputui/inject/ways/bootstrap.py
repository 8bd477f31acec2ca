# Runs inside the program, in a thread of its own and in a fresh dictionary, in any Python from 3.8 on. It is carried
# there as text, after that of `own_imports.py` and `guards/originals.py` of gputui/probe: nothing of gputui can be
# imported before it has installed the importer below.
__name__ = "_gputui_bootstrap"

PAUSE_S = 0.05
"""The longest wait after a module."""


class GputuiImporter:
    """Imports the probe's modules, which it keeps compressed in memory; stays in `sys.meta_path`.

    Until its hooks are registered, nothing may be imported that the program has not imported: a child that is forked
    meanwhile would wait for that module for ever.
    """

    def __init__(self, index, body):
        import os

        self._os = os
        self._loading = allocate_lock()  # noqa: F821 - of originals.py, like `sleep`
        self._is_forking = False
        after = self._after_fork
        os.register_at_fork(before=self._before_fork, after_in_parent=after, after_in_child=after)
        self._modules, at = {}, 0
        for entry in index.split():
            name, is_package, size = entry.split(":")
            self._modules[name] = is_package == "1", body[at : at + int(size)]
            at += int(size)

    def find_spec(self, name, path=None, target=None):
        if name not in self._modules:
            return None
        is_package, _ = self._modules[name]
        origin = self._origin(name)
        return _spec_of(name, self, origin=origin, is_package=is_package)  # noqa: F821 - of own_imports.py

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__spec__.name
        began = time.thread_time()  # noqa: F821 - of originals.py
        code = compile(self.get_source(name), self._origin(name), "exec", dont_inherit=True)
        if get_native_id() != self._os.getpid():  # noqa: F821 - the main thread does not wait
            # One call of `compile` keeps the interpreter to itself: between two, the program's threads have it as long.
            sleep(min(time.thread_time() - began, PAUSE_S))  # noqa: F821
        exec(code, module.__dict__)

    def get_source(self, name):
        zlib = own_import.module("zlib")  # noqa: F821
        return zlib.decompress(self._modules[name][1]).decode("utf-8")

    def load(self, linger_s):
        """Start the probe; returns why it did not start. A fork waits meanwhile: the child would inherit locks."""
        with self._loading:
            return _start(self, linger_s)

    def _before_fork(self):
        import sys

        self._loading.acquire()
        self._is_forking = True
        lifecycle = sys.modules.get("gputui.probe.lifecycle")
        if lifecycle is not None:
            lifecycle.before_fork()  # a probe that started while the fork waited has missed its own hook

    def _after_fork(self):
        if self._is_forking:  # a fork that had begun when the hooks were registered has not waited for the lock
            self._is_forking = False
            self._loading.release()

    def _origin(self, name):
        is_package, _ = self._modules[name]
        return "<" + name.replace(".", "/") + ("/__init__" if is_package else "") + ".py>"


def _load_from_memory(region, parameters):
    """In the pending call's thread: `region` is the memory that is unmapped once this returns."""
    trouble = _load(region, parameters)
    if trouble:
        first, end = parameters["report"]
        words = trouble.encode("utf-8", "replace")[: end - first - 1]
        region[first : first + len(words)] = words
        sleep(2)  # noqa: F821 - the viewer reads the report before this memory is unmapped
    sleep(0.2)  # noqa: F821 - the main thread may still be on its way out of the code beside this memory


def _load_from_file(path, content, parameters):
    """In the thread of a remote debugging script: `path` is the file with its content, which takes the outcome."""
    outcome = _load(content, parameters) or "loaded"
    try:
        with open(path, "r+b") as file:
            file.write(("\0" + outcome + "\0").encode("utf-8", "replace"))
    except FileNotFoundError:
        pass  # the viewer is gone


def _load(content, parameters):
    """Start the probe; returns why it did not start."""
    try:
        return _importer(content, parameters).load(parameters["linger_s"])
    except Exception as error:  # the viewer gets it as the reason; the program goes on
        return type(error).__name__ + ": " + str(error)


def _importer(content, parameters):
    """The importer of an earlier attach, or a new one."""
    import sys

    for finder in sys.meta_path:
        if type(finder).__name__ == "GputuiImporter":
            return finder
    first, end = parameters["archive"]
    index, _, body = bytes(content[first:end]).partition(b"\n")
    importer = GputuiImporter(index.decode("ascii"), body)
    sys.meta_path.append(importer)
    return importer


def _start(importer, linger_s):
    import sys

    refusal = builtins_refusal()  # noqa: F821 - of own_imports.py
    if refusal:
        return "off: " + refusal
    is_new = "gputui.probe" not in sys.modules
    if "gputui" not in sys.modules:
        # Without the path finders: a gputui that is installed there can be another version.
        module = type(sys)("gputui")
        module.__spec__ = spec = importer.find_spec("gputui")
        module.__loader__, module.__package__, module.__path__ = importer, "gputui", []
        module.__file__ = spec.origin
        sys.modules["gputui"] = module
        importer.exec_module(module)
    own_import.module("gputui.probe.viewers.server")  # noqa: F821 - here, where no fork can come in between
    lifecycle = own_import.module("gputui.probe.lifecycle")  # noqa: F821

    is_new = is_new or not lifecycle.status().startswith("/")
    lifecycle.start()
    if is_new:
        lifecycle.leave_when_alone(linger_s)
    status = lifecycle.status()
    return "" if status.startswith("/") else status
