"""The archive's file: SQLite in WAL mode, which many may read while one writes, and which a killed writer leaves whole.

A look every ten seconds is a row for each device and each holder on it. After two days five minutes are one row; after
30 days rows are deleted. A process on a device is one row for as long as it is there.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic
from typing import TypeVar

from gputui.archive import place
from gputui.archive.shares import DeviceTime, Holder
from gputui.errors import GputuiError
from gputui.model.decode import DecodeError, decode, field_names
from gputui.model.machine.device import Device
from gputui.model.machine.finding import MachineFinding
from gputui.model.machine.secrets import mask_command
from gputui.model.reading import value_of
from gputui.own_place import is_own_place

R = TypeVar("R")

DETAILED_S = 2 * 86400
KEPT_S = 30 * 86400
ROLLED_S = 300
_ROLL_EVERY_S = 3600
_COMMAND_AT_MOST = 300
"""Characters of a command line that are kept."""
READ_WITHIN_S = 60.0
_STEPS_UNCHECKED = 100_000
"""Instructions of SQLite's virtual machine between two checks of the time limit: a few milliseconds."""

_STEPS = (
    """
CREATE TABLE device(id INTEGER PRIMARY KEY, uuid TEXT UNIQUE, label TEXT, name TEXT);
CREATE TABLE holder(id INTEGER PRIMARY KEY, user TEXT, job TEXT, UNIQUE(user, job));
CREATE TABLE device_time(time INTEGER, device INTEGER, span_s REAL, active_s REAL, idle_held_s REAL,
    utilization_percent REAL, used_bytes INTEGER, power_w REAL, PRIMARY KEY(time, device)) WITHOUT ROWID;
CREATE TABLE holder_time(time INTEGER, device INTEGER, holder INTEGER, active_s REAL, idle_held_s REAL,
    held_bytes INTEGER, PRIMARY KEY(time, device, holder)) WITHOUT ROWID;
CREATE TABLE finding(kind TEXT, place TEXT, about TEXT, since REAL, until REAL, title TEXT, remedy TEXT,
    PRIMARY KEY(kind, place, about, since)) WITHOUT ROWID;
CREATE TABLE rolled(until INTEGER);
INSERT INTO rolled VALUES(0)
""",
    """
CREATE TABLE process(device INTEGER, pid INTEGER, started REAL, user TEXT, job TEXT, command TEXT, since INTEGER,
    until INTEGER, active INTEGER, held_bytes INTEGER, allocated_bytes INTEGER, PRIMARY KEY(device, pid, started))
    WITHOUT ROWID
""",
)
"""Each step brings a file to the next version; the first one makes a new file."""
VERSION = len(_STEPS)

_PROCESS = """
INSERT INTO process VALUES(?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET
    user = coalesce(nullif(excluded.user, ''), user), job = coalesce(nullif(excluded.job, ''), job),
    command = coalesce(nullif(excluded.command, ''), command), until = excluded.until,
    active = max(active, excluded.active), held_bytes = max(held_bytes, excluded.held_bytes), allocated_bytes =
    coalesce(max(allocated_bytes, excluded.allocated_bytes), allocated_bytes, excluded.allocated_bytes)
"""

_ROLL_UP = f"""
INSERT OR REPLACE INTO device_time SELECT time / {ROLLED_S} * {ROLLED_S}, device, sum(span_s), sum(active_s),
    sum(idle_held_s), avg(utilization_percent), max(used_bytes), avg(power_w) FROM device_time
    WHERE time >= :begin AND time < :end GROUP BY time / {ROLLED_S}, device;
INSERT OR REPLACE INTO holder_time SELECT time / {ROLLED_S} * {ROLLED_S}, device, holder, sum(active_s),
    sum(idle_held_s), max(held_bytes) FROM holder_time
    WHERE time >= :begin AND time < :end GROUP BY time / {ROLLED_S}, device, holder;
DELETE FROM device_time WHERE time >= :begin AND time < :end AND time % {ROLLED_S};
DELETE FROM holder_time WHERE time >= :begin AND time < :end AND time % {ROLLED_S};
UPDATE rolled SET until = :end;
DELETE FROM device_time WHERE time < :oldest;
DELETE FROM holder_time WHERE time < :oldest;
DELETE FROM finding WHERE until < :oldest;
DELETE FROM process WHERE until < :oldest
"""


def file_to_write(*, is_shared: bool) -> Path:
    """The path of the record: in the user's folder for state, or with `is_shared` where all users look for it."""
    path = place.SHARED if is_shared else place.own_file(os.environ)
    if not path:
        cause = "There is no folder for the record: HOME is not set."
        raise GputuiError(cause, "Name a file with --file.")
    if not is_shared and not is_own_place():
        cause = f"The record cannot be kept: {path} is in a folder of another user."
        raise GputuiError(cause, "Set HOME, or XDG_STATE_HOME, to a folder of yours, or use --shared.")
    return Path(path)


class Archive:
    """Writes a record; a lock file lets one process do so at a time. With `is_shared`, all users may read it."""

    def __init__(self, path: Path, *, is_shared: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755 if is_shared else 0o700)
        _make(path)
        self._lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            cause = f"Another gputui records into {path} already."
            raise GputuiError(cause, "Name another file with --file.") from None
        if is_shared:
            path.chmod(0o644)  # SQLite gives the files beside it the same
        try:
            self._open(path)
        except sqlite3.Error as error:
            cause = f"{path} cannot be written: {error}."
            raise GputuiError(cause, "Make room on its file system, or name another file with --file.") from None
        self._rolled_at = 0.0

    def _open(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")
        if _version(self._database, path) < VERSION:
            with self._transaction():
                _bring_up_to_date(self._database)

    def add(self, time: float, times: Iterable[DeviceTime], findings: Iterable[MachineFinding]) -> None:
        """Add what happened since the look before, until `time`. Raises `sqlite3.Error` where the disk is full."""
        with self._transaction():
            for each in times:
                self._add_device(int(time), each)
            for finding in findings:
                place = (finding.kind, finding.where, finding.about, finding.since)
                self._database.execute(
                    "INSERT OR REPLACE INTO finding VALUES(?,?,?,?,?,?,?)",
                    (*place, time, finding.title, finding.remedy),
                )
        if time >= self._rolled_at + _ROLL_EVERY_S:
            self._rolled_at = time
            self.roll_up(time)

    def roll_up(self, now: float) -> None:
        """Join the rows that are older than two days, and delete those that are older than 30."""
        end = int(now - DETAILED_S) // ROLLED_S * ROLLED_S
        (begin,) = self._database.execute("SELECT until FROM rolled").fetchone()
        values = {"begin": begin, "end": max(begin, end), "oldest": int(now - KEPT_S)}
        with self._transaction():
            for statement in _ROLL_UP.split(";"):
                used = {name: value for name, value in values.items() if f":{name}" in statement}
                self._database.execute(statement, used)

    def close(self) -> None:
        """Close the file, so that another process may write it."""
        self._database.close()
        os.close(self._lock)

    def _add_device(self, time: int, each: DeviceTime) -> None:
        device = self._device(each.device)
        readings = (each.utilization_percent, each.used_bytes, each.power_w)
        self._database.execute(
            "INSERT OR REPLACE INTO device_time VALUES(?,?,?,?,?,?,?,?)",
            (time, device, each.span_s, each.active_s, each.idle_held_s, *readings),
        )
        for share in each.shares:
            self._database.execute(
                "INSERT OR REPLACE INTO holder_time VALUES(?,?,?,?,?,?)",
                (time, device, self._holder(share.holder), share.active_s, share.idle_held_s, share.held_bytes),
            )
        for held in each.processes:
            pid, started, _ = held.process.identity
            if pid:  # 0 is what the driver gives for one in another container
                command = mask_command(value_of(held.process.command) or "")[:_COMMAND_AT_MOST]
                seen = (time, time, time if held.is_active else 0, held.held_bytes, held.allocated_bytes)
                self._database.execute(_PROCESS, (device, pid, started or 0.0, *held.holder, command, *seen))

    def _device(self, device: Device) -> int:
        values = (device.label, device.name, device.key)
        self._database.execute("INSERT OR IGNORE INTO device(label, name, uuid) VALUES(?,?,?)", values)
        return self._id("SELECT id FROM device WHERE uuid = ?", device.key)

    def _holder(self, holder: Holder) -> int:
        self._database.execute("INSERT OR IGNORE INTO holder(user, job) VALUES(?,?)", holder)
        return self._id("SELECT id FROM holder WHERE user = ? AND job = ?", *holder)

    def _id(self, query: str, *values: str) -> int:
        (found,) = self._database.execute(query, values).fetchone()
        return int(found)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:  # whatever ends it, half of a transaction must not stay open
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise


def _make(path: Path) -> None:
    """Create the file unless it exists; raises `GputuiError` for what is no regular file."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    os.close(descriptor)
    if not is_file:
        cause = f"{path} is a pipe or a device, and no file."
        raise GputuiError(cause, "Name another file with --file.")


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """The archive for a reader. Raises `GputuiError` where there is none, or it is damaged."""
    try:
        with closing(open_to_read(path)) as database:
            yield database
    except (sqlite3.Error, DecodeError) as error:
        cause = f"{path} cannot be read: {error}."
        raise GputuiError(cause, "If it is damaged, move it away: gputui record begins a new one.") from None


def open_to_read(path: Path) -> sqlite3.Connection:
    """The archive, open for reading alone; one of an older version is copied into memory, and brought up to date there.

    Raises `GputuiError` where there is none, `sqlite3.Error` where it cannot be read.
    """
    if not path.is_file():
        cause = f"There is no record of this machine at {path}."
        raise GputuiError(cause, "Run `gputui record` for some time; docs/archive.md has a service for it.")
    is_written = Path(f"{path}-wal").exists()  # if not, SQLite would create it, perhaps in another user's folder
    database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{'' if is_written else '&immutable=1'}", uri=True)
    end = monotonic() + READ_WITHIN_S
    _give_up_at(end, database)
    version = _version(database, path)
    if not version:
        cause = f"{path} is not a record of gputui's."
        raise GputuiError(cause, "Name a file that gputui record has written.")
    if version == VERSION:
        return database
    copy = sqlite3.connect(":memory:")
    _give_up_at(end, copy)
    database.backup(copy)
    database.close()
    _bring_up_to_date(copy)
    return copy


def _give_up_at(end: float, database: sqlite3.Connection) -> None:
    """Interrupt what runs at that time (monotonic clock): another user's file can have views whose rows never end."""
    database.set_progress_handler(lambda: monotonic() > end, _STEPS_UNCHECKED)


def records(kind: type[R], rows: Iterable[Sequence[object]]) -> Iterator[R]:
    """Rows as instances of a named tuple, checked like a probe's messages. Raises DecodeError."""
    names = field_names(kind)
    return (decode(kind, dict(zip(names, row, strict=True))) for row in rows)


def _bring_up_to_date(database: sqlite3.Connection) -> None:
    """Make the tables of a new file, or those that an older one lacks."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    for statement in ";".join(_STEPS[version:]).split(";"):
        database.execute(statement)
    database.execute(f"PRAGMA user_version = {VERSION}")


def _version(database: sqlite3.Connection, path: Path) -> int:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        cause = f"{path} was written by a newer gputui."
        raise GputuiError(cause, "Upgrade gputui here.")
    return int(version)
