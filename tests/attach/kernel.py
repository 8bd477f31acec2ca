"""A real IPython kernel, driven through jupyter_client as a notebook drives it."""

from __future__ import annotations

import os
import signal
import textwrap
from dataclasses import dataclass
from pathlib import Path

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file

from gputui.sources.probe.client import ProbeClient
from tests.attach.children import LIMIT_S, Child, Python
from tests.torches import FORKED_AFTER

LAUNCHER = "from ipykernel.kernelapp import launch_new_instance; launch_new_instance()"
"""What `ipykernel_launcher` does."""
FIRST_CELL = "import gputui.probe, torch, torch._dynamo; torch.set_num_threads(1)"


@dataclass(frozen=True)
class Reply:
    """How a cell ended: its standard output, its displayed result, and the name of its exception, "" if it had none."""

    output: str
    result: str
    exception: str


class Kernel:
    """A kernel and the notebook that talks to it. Cells are numbered from 1 on, as in a notebook."""

    def __init__(self, python: Python) -> None:
        connection, _ = write_connection_file(str(python.folder / "kernel.json"), transport="ipc", ip=_socket_prefix())
        self._child: Child = python.fork(LAUNCHER, "-f", connection, modules=(*FORKED_AFTER, "ipykernel.kernelapp"))
        self._client = BlockingKernelClient(connection_file=connection)
        self._client.load_connection_file()
        self._client.start_channels(hb=False)  # a busy machine may miss a heartbeat, which counts as death
        self._client.wait_for_ready(timeout=LIMIT_S)
        self.run(FIRST_CELL)

    @property
    def pid(self) -> int:
        return self._child.pid

    def run(self, cell: str) -> Reply:
        """Run a cell to its end, and wait until the kernel is idle again."""
        return self.finish(self.begin(cell))

    def begin(self, cell: str) -> str:
        """Start a cell; returns the request that `finish` waits for."""
        return self._client.execute(textwrap.dedent(cell).strip())

    def wait_for_output(self, text: str) -> None:
        """Wait until the running cell has printed a text."""
        while text not in self._message()["content"].get("text", ""):
            pass

    def finish(self, request: str) -> Reply:
        """Wait until a cell has ended and the kernel is idle."""
        output = result = exception = ""
        while True:
            message = self._message()
            if message["parent_header"].get("msg_id") != request:
                continue
            content, kind = message["content"], message["msg_type"]
            output += content["text"] if kind == "stream" else ""
            result = content["data"]["text/plain"] if kind == "execute_result" else result
            exception = content["ename"] if kind == "error" else exception
            if kind == "status" and content["execution_state"] == "idle":
                return Reply(output, result, exception)

    def interrupt(self) -> None:
        """What the notebook's stop button does."""
        os.kill(self.pid, signal.SIGINT)

    def attach(self) -> ProbeClient:
        return self._child.attach()

    def close(self) -> None:
        self._client.stop_channels()

    def _message(self) -> dict:
        return self._client.get_iopub_msg(timeout=LIMIT_S)


def _socket_prefix() -> str:
    """Beside the probe's sockets, under a short path, which both ends can reach."""
    return str(Path(os.environ["XDG_RUNTIME_DIR"]) / "kernel")
