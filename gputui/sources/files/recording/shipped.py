"""The recordings that come with gputui, which the demonstration replays for its processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gputui.model.attached.moment import Surroundings
from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import value_of
from gputui.sources.demo.scenario import EXAMPLES as EXAMPLE_PIDS
from gputui.sources.demo.scenario import RANKS
from gputui.sources.demo.scenario import SERVER as SERVER_PID
from gputui.sources.files.recording.player import Listener, Player, ReplayFeed
from gputui.sources.files.recording.reader import Recording
from gputui.sources.probe.listing import REMEDY, CannotAttachError
from gputui.units import GIB

FOLDER = Path(__file__).parent
SHIPPED = FOLDER / "training.gputui"
"""Made by screenshots/make_recording.py, as are the others."""

OPENS_AT_S = 20.0
"""Before that, the training imports modules and builds its model: there is nothing to see yet."""
LEFT_S = 12.0
"""At least this much of the recording is left to play."""


@dataclass(frozen=True, slots=True)
class Example:
    """A recorded program: its name in tests/attach/programs/sick.py, or only here, and what is wrong with it.

    Its recording opens at `opens_at_s` seconds, when the screens know what the program does.
    """

    name: str
    title: str
    opens_at_s: float = 32.0


TRAINING = Example("training", "a training that runs out of memory")
WELL = Example("well", "nothing wrong", 40.0)
SERVER = Example("server", "a vLLM whose requests wait for its KV cache", 40.0)
SGLANG = Example("sglang", "an SGLang of which more requests are asked than may run", 40.0)
EXAMPLES = (
    TRAINING,
    Example("forgotten_no_grad", "no_grad forgotten"),
    Example("losses_kept", "losses kept with their graphs"),
    Example("predictions_kept", "predictions kept on the device"),
    Example("graph_kept", "a graph kept by one variable", 36.0),
    Example("gradients_kept", "gradients never freed"),
    Example("old_optimizer", "the optimizer of a deleted model"),
    Example("second_model", "a second model for its average"),
    Example("replay_buffer", "a replay buffer on the device", 42.0),
    Example("class_attribute", "tensors in a class attribute"),
    Example("exception_kept", "an exception that keeps tensors"),
    Example("growing_lengths", "fragmentation by growing lengths", 40.0),
    Example("cache_emptied", "empty_cache() at each step"),
    SERVER,
    SGLANG,
    WELL,
)
"""In the order of the demonstration's list."""


def file_of(example: Example) -> Path:
    """The recording of an example."""
    return SHIPPED if example is TRAINING else FOLDER / "examples" / f"{example.name}.gputui"


def opening(number: int) -> tuple[str, float]:
    """The command of an example, and the GiB of device memory that it holds where its recording is opened."""
    recording = Recording(file_of(EXAMPLES[number]))
    command = next(iter(recording.greetings.values())).command
    held = [size for time_s, size in _held(recording) if time_s <= EXAMPLES[number].opens_at_s]
    recording.close()
    return command, (held[-1] if held else 0) / GIB


def demo_feed(snapshot: Callable[[], Snapshot], pid: int, listener: Listener) -> ReplayFeed:
    """The replay for a process of the demonstration; raises GputuiError if that process has no probe."""
    process = next((candidate for candidate in snapshot().processes.processes if candidate.pid == pid), None)
    if process is None or not process.has_probe:
        cause = f"Process {pid} of the demonstration has no probe."
        raise CannotAttachError(cause, REMEDY)
    example = played_by(pid)
    recording = Recording(file_of(example))
    recorded = next(iter(recording.greetings))
    player = Player(recording, lambda greeting: replace(greeting, pid=pid))
    used = sum(value_of(use.used_bytes) or 0 for use in process.uses)
    player.seek(_opens_at_s(recording, used) if example is TRAINING else example.opens_at_s)
    return ReplayFeed(player, recorded, listener, shown_as=pid)


def played_by(pid: int) -> Example:
    """The recording for a process of the demonstration: nothing is wrong with the ranks of the training job."""
    if pid in EXAMPLE_PIDS:
        return EXAMPLES[EXAMPLE_PIDS.index(pid)]
    if pid == SERVER_PID:
        return SERVER
    return WELL if pid in RANKS else TRAINING


def _opens_at_s(recording: Recording, used_bytes: int) -> float:
    """Seconds into the recording at which its program holds as much as the process list shows for the process."""
    position = next((time_s for time_s, held in _held(recording) if held >= used_bytes), OPENS_AT_S)
    return max(OPENS_AT_S, min(position, recording.ends - recording.begins - LEFT_S))


def _held(recording: Recording) -> Iterator[tuple[float, int]]:
    """Seconds into the recording, and the device memory that its process held then."""
    for record in recording.records():
        if isinstance(record.content, Surroundings):
            held = sum(value_of(facts.process_used_bytes) or 0 for _, facts in record.content.drivers)
            yield record.time - recording.begins, held
