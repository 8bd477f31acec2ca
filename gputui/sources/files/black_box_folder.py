"""The folder in which probes keep black boxes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gputui import environment
from gputui.errors import GputuiError
from gputui.protocol import black_boxes
from gputui.sources.files.black_box import BlackBox, NoBlackBoxError, read


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file in the folder, written at `time` (epoch seconds)."""

    path: Path
    time: float

    def box(self) -> BlackBox | str:
        """The black box in the file, or why it cannot be read."""
        try:
            return read(self.path)
        except NoBlackBoxError as error:
            return error.cause


def folder_of(variables: Mapping[str, str]) -> Path:
    """The folder in which programs with these environment variables keep black boxes; raises GputuiError."""
    folder = variables.get(environment.BLACK_BOX) or black_boxes.default_folder(variables)
    if not folder:
        cause = "There is no folder for black boxes: HOME is not set."
        raise GputuiError(cause, f"Name one in {environment.BLACK_BOX}, or with --dir.")
    return Path(folder)


def kept_files(folder: Path) -> list[KeptFile]:
    """The black boxes in a folder, newest first, [] if there is no such folder; raises GputuiError."""
    try:
        return sorted(_files(folder), key=lambda file: (-file.time, file.path.name))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        cause = f"{folder} cannot be read: {error.strerror}."
        raise GputuiError(cause) from None


def _files(folder: Path) -> Iterator[KeptFile]:
    for path in folder.iterdir():
        if black_boxes.is_name(path.name):
            yield KeptFile(path, path.lstat().st_mtime)
