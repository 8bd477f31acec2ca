"""The forking process of `tests.forkserver`, started once for many programs:  process.py SOCKET MODULE...

It imports the modules, then forks a child for each program requested on a connection to the socket, which listens. A
request is the JSON of `{"fork": [SCRIPT, ARGUMENT...], "environment": {}, "folder": "", "terminal": ""}`, sent with the
descriptors of standard input, output and error, in whose place a terminal comes, if one is named; the child answers
`{"pid": PID}` and becomes the program. `{"wait": PID}` is answered with `{"status": STATUS}` after that child has
ended. This process ends when the last connection is closed.

In daily use, the programs' collections of garbage and scans pass over the 370,000 objects that PyTorch makes when it is
imported: in a forked process each page that they touch is copied.
"""

from __future__ import annotations

import array
import atexit
import ctypes
import gc
import importlib
import json
import os
import select
import socket
import struct
import sys
import threading
import types
from contextlib import suppress
from pathlib import Path

IS_BY_DAY = os.environ.get("GPUTUI_TEST_SCALE", "1") == "1"
COMES_WITHIN_S = 60.0
"""Who starts this process connects at once; if nobody has come by then, nobody will."""


def program_to_run() -> types.CodeType:
    """Serve until the last connection is closed; return only in a child that looks like a program just started."""
    connections: list[socket.socket] = []
    request, descriptors = None, array.array("i")
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        import_modules()
        while request is None:
            ready = select.select([listening, *connections], [], [], None if connections else COMES_WITHIN_S)[0]
            if listening in ready:
                connections += accepted(listening)
            elif ready:
                request, descriptors = served(ready[0], connections)
            if not connections and listening not in ready:
                os._exit(0)
    for connection in connections:
        connection.close()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    return become(**request)


def accepted(listening: socket.socket) -> list[socket.socket]:
    """The next connection, unless it is another user's, who could have programs run as this one."""
    connection = listening.accept()[0]
    _pid, user, _group = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if user == os.geteuid():
        return [connection]
    connection.close()
    return []


def served(connection: socket.socket, connections: list[socket.socket]) -> tuple[dict | None, array.array[int]]:
    """Answer what has come, and return it in the child that becomes a program, with its descriptors."""
    data, descriptors = b"", array.array("i")
    with suppress(ConnectionResetError):  # a worker was killed before it read its last answer
        data, descriptors = received(connection)
    request = json.loads(data) if data else {}
    if not data:
        connections.remove(connection)
        connection.close()
    elif "wait" in request:
        status = os.waitpid(request["wait"], 0)[1]
        with suppress(BrokenPipeError):
            connection.send(json.dumps({"status": status}).encode())
    elif os.fork() == 0:
        os.setsid()
        connection.send(json.dumps({"pid": os.getpid()}).encode())
        return request, descriptors
    for descriptor in descriptors:
        os.close(descriptor)
    return None, descriptors


def import_modules() -> None:
    """Import what the programs need."""
    for name in sys.argv[2:]:
        importlib.import_module(name)
    if IS_BY_DAY:
        pass_over_what_is_there()


def pass_over_what_is_there() -> None:
    """Let garbage collection and scans pass over the objects of PyTorch's modules.

    By the module `sys`, which stays among the others, the probe tells that a program has not called `gc.freeze()`.
    """
    gc.freeze()
    for call in (ctypes.pythonapi.PyObject_GC_UnTrack, ctypes.pythonapi.PyObject_GC_Track):
        call(ctypes.py_object(sys))


def received(control: socket.socket) -> tuple[bytes, array.array[int]]:
    """What `socket.recv_fds` returns, which Python 3.8 does not have."""
    descriptors = array.array("i")
    data, ancillary, _, _ = control.recvmsg(1 << 20, socket.CMSG_LEN(3 * descriptors.itemsize))
    for _, _, content in ancillary:
        descriptors.frombytes(content)
    return data, descriptors


def become(fork: list[str], environment: dict[str, str], folder: str, terminal: str = "") -> types.CodeType:
    """Set up what the command line gives to an interpreter, and return the script's code."""
    os.chdir(folder)
    if terminal:
        descriptor = os.open(terminal, os.O_RDWR)  # controls this session, which has none
        for number in range(3):
            os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    show_environment(environment)
    os.environ.update(environment)
    sys.argv[:] = fork
    sys.path[:1] = [str(Path(fork[0]).parent), *filter(None, environment.get("PYTHONPATH", "").split(":"))]
    main = types.ModuleType("__main__")
    main.__file__ = fork[0]
    sys.modules["__main__"] = main
    sys.modules.pop("sitecustomize", None)  # to import the one on this environment's PYTHONPATH
    with suppress(ModuleNotFoundError):
        importlib.import_module("sitecustomize")
    return compile(Path(fork[0]).read_text(encoding="utf-8"), fork[0], "exec")


def show_environment(environment: dict[str, str]) -> None:
    """Write the environment where `/proc/PID/environ` reads it: over that of this process's exec, which has room."""
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(fields[47]), int(fields[48])  # env_start and env_end: see proc(5)
    block = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
    assert len(block) <= end - start, "the environment of a test does not fit into that of the forking process"
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, block, len(block))


def run(code: types.CodeType) -> None:
    """Run a program to its end."""
    try:
        exec(code, vars(sys.modules["__main__"]))
    except SystemExit as end:
        if end.code is not None and type(end.code) is not int:
            raise
        end_now(end.code or 0)
    end_now(0)


def end_now(status: int) -> None:
    """End with what a program may have asked for at its end: by day, without clearing its modules after that.

    A test that is about the end sets the variable WHOLE_END.
    """
    if IS_BY_DAY and "WHOLE_END" not in os.environ:
        threading._shutdown()
        atexit._run_exitfuncs()
        with suppress(OSError, ValueError):  # what cannot be written is for Python to say
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
            os._exit(status & 0xFF)
    sys.exit(status)


run(program_to_run())
