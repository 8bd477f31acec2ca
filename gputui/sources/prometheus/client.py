"""One connection to a Prometheus, for one question at a time, with bounds on the answer's time and size."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urlencode

from gputui import __version__
from gputui.errors import GputuiError
from gputui.model.fleet.fleet import Cost, TroubleKind
from gputui.sources.prometheus.access import Access
from gputui.sources.prometheus.decode import (
    Answer,
    Series,
    TooManyError,
    WrongAnswerError,
    answer_of,
    names_of,
    reason_of,
    series_of,
)
from gputui.sources.prometheus.metrics import NAMES
from gputui.sources.prometheus.questions import Question

D = TypeVar("D")

WITHIN_S = 20.0
"""Prometheus itself gives a query two minutes; a screen is of no use with figures that old."""
MOST_BYTES = 128 << 20
"""The largest answer, unpacked: all processes of 100,000 GPUs take less."""
_CHUNK_BYTES = 1 << 16
_UNZIP = 31
"""zlib's number for gzip with the largest window."""


class ServerError(GputuiError):
    """The server gave no usable answer; `kind` says why."""

    def __init__(self, kind: TroubleKind, cause: str, remedy: str = "") -> None:
        super().__init__(cause, remedy)
        self.kind = kind


class Server:
    """A connection to a server; `close` may be called from another thread than the others."""

    def __init__(self, access: Access, within_s: float = WITHIN_S, most_bytes: int = MOST_BYTES) -> None:
        self.address = access.address
        self._access, self._within_s, self._most_bytes = access, within_s, most_bytes
        self._connection: http.client.HTTPConnection | None = None
        self.cost = Cost()

    def ask(self, question: Question) -> tuple[Series, ...]:
        """What a question finds now."""
        return self._series("query", {"query": question.expression})

    def ask_range(self, question: Question, start: float, end: float, step_s: float) -> tuple[Series, ...]:
        """What a question finds at times from `start` to `end` (epoch seconds), every `step_s` seconds."""
        times = {"start": f"{start:.0f}", "end": f"{end:.0f}", "step": f"{step_s:g}"}
        return self._series("query_range", {"query": question.expression, **times})

    def names(self) -> frozenset[str]:
        """The names of the metrics of GPUs that the server has."""
        return self._decoded(
            names_of, self._answer("label/__name__/values", {"match[]": f'{{__name__=~"{NAMES}"}}'}, "GET")
        )

    def close(self) -> None:
        """Break off a question that waits; called from any thread."""
        if self._connection is not None:
            _cut(self._connection)

    def _drop(self) -> None:
        """Forget the connection; only in the thread that asks, because a call must not lose its objects."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _series(self, path: str, words: Mapping[str, str]) -> tuple[Series, ...]:
        return self._decoded(series_of, self._answer(path, {**words, "stats": "all"}, "POST"))

    def _decoded(self, decode: Callable[[Any], D], text: bytes) -> D:
        try:
            answer: Answer = answer_of(text)
            self.cost = self.cost._replace(samples=self.cost.samples + answer.samples)
            return decode(answer.data)
        except WrongAnswerError:
            raise self._not_prometheus() from None
        except TooManyError:
            raise self._too_large() from None

    def _answer(self, path: str, words: Mapping[str, str], method: str) -> bytes:
        """The body of the answer. If the kept connection has ended meanwhile, a new one is used."""
        self.cost = self.cost._replace(questions=self.cost.questions + 1)
        if self._connection is not None:
            with suppress(ConnectionError):
                return self._exchanged(self._connection, path, words, method)
            self._drop()
        access = self._access
        connection: http.client.HTTPConnection
        if access.tls is not None:
            connection = http.client.HTTPSConnection(
                access.host, access.port, timeout=self._within_s, context=access.tls
            )
        else:
            connection = http.client.HTTPConnection(access.host, access.port, timeout=self._within_s)
        self._connection = connection
        try:
            return self._exchanged(connection, path, words, method)
        except ConnectionError as error:
            raise self._trouble(error) from error

    def _exchanged(
        self, connection: http.client.HTTPConnection, path: str, words: Mapping[str, str], method: str
    ) -> bytes:
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            _cut(connection)

        watchdog = threading.Timer(self._within_s, end)
        watchdog.name, watchdog.daemon = "gputui-prometheus-limit", True
        watchdog.start()
        try:
            body = self._asked(connection, path, words, method)
        except (OSError, http.client.HTTPException, zlib.error) as error:
            if connection is self._connection:
                self._drop()
            if is_late.is_set() or isinstance(error, TimeoutError):
                raise self._slow() from error
            if isinstance(error, ConnectionError):
                raise
            raise self._trouble(error) from error
        finally:
            watchdog.cancel()
        if is_late.is_set():  # what was cut can look like a whole answer
            raise self._slow()
        return body

    def _asked(self, connection: http.client.HTTPConnection, path: str, words: Mapping[str, str], method: str) -> bytes:
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": f"gputui/{__version__}"}
        if self._access.authorization:
            headers["Authorization"] = self._access.authorization
        target, form = f"{self._access.prefix}/api/v1/{path}", urlencode(words)
        if method == "POST":
            connection.request("POST", target, form, {**headers, "Content-Type": "application/x-www-form-urlencoded"})
        else:
            connection.request("GET", f"{target}?{form}", headers=headers)
        response = connection.getresponse()
        body = self._body(response)
        if response.status != http.client.OK:
            raise self._status(response, body)
        return body

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        """The whole body, unpacked piece by piece: a small packed answer can unpack to an endless one."""
        unzip = zlib.decompressobj(_UNZIP) if response.headers.get("Content-Encoding", "").lower() == "gzip" else None
        body = bytearray()
        received = 0
        while data := response.read(_CHUNK_BYTES):
            received += len(data)
            body += unzip.decompress(data, self._most_bytes + 1) if unzip else data
            if len(body) > self._most_bytes:
                self._drop()
                raise self._too_large()
        self.cost = self.cost._replace(received_bytes=self.cost.received_bytes + received)
        return bytes(body)

    def _status(self, response: http.client.HTTPResponse, body: bytes) -> ServerError:
        where, status = self.address, response.status
        if status in (401, 403):
            cause = f"{where} does not let this user ask ({status} {response.reason})."
            remedy = (
                "Check the file that --credentials names."
                if self._access.authorization
                else "Name a file with the password or token: --credentials FILE."
            )
            return ServerError(TroubleKind.FORBIDDEN, cause, remedy)
        if reason := reason_of(body):
            kind = TroubleKind.FAILING if status >= 500 else TroubleKind.REFUSED
            return ServerError(kind, f"{where} refuses a question: {reason[:300].rstrip('.')}.")
        if status >= 500:
            return ServerError(
                TroubleKind.FAILING, f"{where} answers with an error ({status} {response.reason}).", "See its log."
            )
        if 300 <= status < 400:
            moved = response.headers.get("Location", "")[:200]
            return ServerError(
                TroubleKind.NOT_PROMETHEUS,
                f"{where} sends elsewhere ({status} to {moved}).",
                "Name that address, if it is the Prometheus.",
            )
        return self._not_prometheus(f" ({status} {response.reason})")

    def _trouble(self, error: Exception) -> ServerError:
        if isinstance(error, ssl.SSLCertVerificationError):
            cause = f"The certificate of {self.address} is not trusted: {error.verify_message}."
            return ServerError(TroubleKind.CERTIFICATE, cause, "Name the certificate of its authority: --ca FILE.")
        if isinstance(error, (http.client.HTTPException, zlib.error)) and not isinstance(error, ConnectionError):
            return self._not_prometheus()
        if isinstance(error, socket.gaierror):
            cause = f"There is no machine {self._access.host}: {error.strerror}."
            return ServerError(TroubleKind.UNREACHABLE, cause, "Check the address that --prometheus names.")
        words = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return ServerError(TroubleKind.UNREACHABLE, f"{self.address} cannot be reached: {words}.", _REACH)

    def _slow(self) -> ServerError:
        cause = f"{self.address} has not answered a question within {self._within_s:g} s."
        return ServerError(TroubleKind.SLOW, cause, "It may be busy; see its page /status.")

    def _too_large(self) -> ServerError:
        cause = f"{self.address} answers with more than gputui takes ({self._most_bytes >> 20} MiB, or 500,000 series)."
        return ServerError(TroubleKind.TOO_LARGE, cause, "Is there a label with a new value at each scrape?")

    def _not_prometheus(self, status: str = "") -> ServerError:
        cause = f"What answers at {self.address} is no Prometheus{status}."
        return ServerError(
            TroubleKind.NOT_PROMETHEUS, cause, "Check port and path: the API is at ADDRESS/api/v1/query."
        )


_REACH = "Check that it runs, and that this machine can reach it."


def _cut(connection: http.client.HTTPConnection) -> None:
    """End a connection at once, also under a call that waits for it."""
    sock = connection.sock
    if sock is not None:
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
