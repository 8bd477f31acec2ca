"""The forking process of `tests.forkserver`, started once for many programs:  process.py SOCKET MODULE...

It imports the modules, then forks a child for each program requested on the socket. A request is the JSON of
`{"fork": [SCRIPT, ARGUMENT...], "environment": {}, "folder": ""}`, sent with the descriptors of standard input, output
and error; the child answers `{"pid": PID}` and becomes the program. `{"wait": PID}` is answered with
`{"status": STATUS}` after that child has ended. This process ends when the socket is closed.
"""

from __future__ import annotations

import array
import ctypes
import importlib
import json
import os
import socket
import sys
import types
from contextlib import suppress
from pathlib import Path


def program_to_run() -> types.CodeType:
    """Serve until the socket is closed; return only in a child, once it looks like a program that has just started."""
    with socket.socket(fileno=int(sys.argv[1])) as control:
        for name in sys.argv[2:]:
            importlib.import_module(name)
        while True:
            data, descriptors = received(control)
            if not data:
                os._exit(0)
            request = json.loads(data)
            if "wait" in request:
                control.send(json.dumps({"status": os.waitpid(request["wait"], 0)[1]}).encode())
            elif os.fork() == 0:
                os.setsid()
                control.send(json.dumps({"pid": os.getpid()}).encode())
                break
            for descriptor in descriptors:
                os.close(descriptor)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    return become(**request)


def received(control: socket.socket) -> tuple[bytes, array.array[int]]:
    """What `socket.recv_fds` returns, which Python 3.8 does not have."""
    descriptors = array.array("i")
    data, ancillary, _, _ = control.recvmsg(1 << 20, socket.CMSG_LEN(3 * descriptors.itemsize))
    for _, _, content in ancillary:
        descriptors.frombytes(content)
    return data, descriptors


def become(fork: list[str], environment: dict[str, str], folder: str) -> types.CodeType:
    """Set up what the command line gives to an interpreter, and return the script's code."""
    os.chdir(folder)
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


code = program_to_run()
exec(code, vars(sys.modules["__main__"]))
