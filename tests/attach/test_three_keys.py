"""Real training programs that use too much memory: at most three keys lead from the shell to the cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests import torches
from tests.attach.children import DRIVEN, Child, Python
from tests.terminal.conftest import GPUTUI
from tests.terminal.pty_session import PtySession

PROGRAMS = Path(__file__).parent / "programs"


class Desk:
    """Fake GPUs, a program that runs on them, and a terminal."""

    def __init__(self, python: Python) -> None:
        self._python = python
        self._terminals: list[PtySession] = []

    def start(self, program: str, *arguments: str, **variables: str) -> Child:
        """Run one of the programs in `programs/`."""
        return self._python.fork(PROGRAMS / program, *arguments, **variables)

    def attach(self, *words: str, size: tuple[int, int] = (120, 40)) -> PtySession:
        """Run `gputui attach` with these arguments, and wait for its first screen."""
        command = f"exec {GPUTUI} attach {' '.join(words)}"
        folder = str(self._python.folder)
        environment = {"HOME": folder, "XDG_CONFIG_HOME": folder, **_environment(self._python.environment)}
        terminal = PtySession(command, environment, size)
        self._terminals.append(terminal)
        terminal.wait_for("Reserved by PyTorch")
        return terminal

    def end(self) -> None:
        """End the terminals and the programs."""
        for terminal in self._terminals:
            terminal.close()
        self._python.end()


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The programs' environment adapted for a viewer, which needs the fake NVML but not the fake CUDA."""
    left_out = ("LD_PRELOAD", "HOME", "XDG_CONFIG_HOME")
    kept = {name: value for name, value in environment.items() if name not in left_out}
    return kept | {"TERM": "xterm-256color", "LANG": "C.UTF-8"}


@pytest.fixture
def desk(cuda_path: str, tmp_path: Path, sockets: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    """A desk with eight fake GPUs, of 80 GiB each, or of the size that the test's parameter gives."""
    memory_gib = getattr(request, "param", 80.0)
    environment = torches.fake_cuda(cuda_path, tmp_path, gpus=8, memory_gib=memory_gib)
    desk = Desk(Python(cuda_path, tmp_path, environment))
    yield desk
    desk.end()


BAD_PROGRAMS = {
    "fragment": (
        8.0,
        ("fragment",),
        ("! Fragmentation: ", "large segments are held by small blocks", "expandable_segments:True"),
    ),
    "leak": (
        80.0,
        ("leak", "1", "1.0"),
        ("! losses (gpt.py:", "Append loss.item() instead of loss"),
    ),
    "keep_gradients": (
        4.0,
        ("keep_gradients", "2"),
        (" are kept through the forward pass.", "zero_grad(set_to_none=True)"),
    ),
    "empty_cache": (
        80.0,
        ("empty_cache",),
        ("! The cache is emptied all the time: ", "torch.cuda.empty_cache() out of the training loop"),
    ),
}


@pytest.mark.parametrize(("desk", "arguments", "sentences"), BAD_PROGRAMS.values(), ids=BAD_PROGRAMS, indirect=["desk"])
def test_why_names_the_cause_and_the_remedy(desk: Desk, arguments: tuple[str, ...], sentences: tuple[str, ...]) -> None:
    program = desk.start("gpt.py", *arguments, **DRIVEN)
    program.expect("ready")
    terminal = desk.attach(str(program.pid))
    terminal.send("2")
    for words in sentences:
        terminal.wait(lambda words=words: words in terminal.words, words)


def test_of_eight_ranks_the_odd_one_is_named_with_its_extra_memory(desk: Desk) -> None:
    job = desk.start("job.py")
    ready = dict(job.expect("ready").split() for _ in range(8))
    assert ready == {str(rank): "8" if rank == 5 else "0" for rank in range(8)}
    terminal = desk.attach("--job", str(job.pid))
    terminal.send("6")
    sentence = (
        " on device 5: 256 MiB more reserved than the median of 8"
        " (256 MiB more allocated, 256 MiB more allocated at its peak)."
    )
    terminal.wait(lambda: sentence in terminal.words, sentence)
    assert " ! Rank 5, PID " in terminal.text
    row = next(line for line in terminal.text.splitlines() if line.lstrip().startswith("5/8"))
    assert row.count("! ") == 3
    assert terminal.text.count("! ") == 4
