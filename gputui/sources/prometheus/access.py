"""The address of a Prometheus, and the credentials for it: they come from files, not from the command line."""

from __future__ import annotations

import re
import ssl
from base64 import b64encode
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from gputui.errors import UsageError
from gputui.regular_files import small_content

_MOST_BYTES = 1 << 16
_FORM = "one line: user:password, or a bearer token"
_IN_PATHS = "/%:@!$&'()*+,;="
"""What stands in a path as it is, beside letters and digits; all else is sent as %XX."""
EXAMPLE = "Use for example --prometheus http://127.0.0.1:9090."


class Access(NamedTuple):
    """How to reach a server: `prefix` is the path before its API; `tls` is None for plain HTTP."""

    address: str
    host: str
    port: int
    prefix: str = ""
    authorization: str = ""
    tls: ssl.SSLContext | None = None


def access_to(address: str, credentials: str = "", authority: str = "", certificate: str = "", key: str = "") -> Access:
    """How to reach the server at an address; the other arguments are names of files, "" for none. Raises UsageError."""
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        port, host = parts.port, parts.hostname or ""
        host.encode("idna")
    except UnicodeError:
        cause = f"{address!r} is not the address of a Prometheus: a name has 1 to 63 letters between two dots."
        raise UsageError(cause, EXAMPLE) from None
    except ValueError as error:
        cause = f"{address!r} is not the address of a Prometheus: {error}."
        raise UsageError(cause, EXAMPLE) from None
    is_host = re.fullmatch(r"[^\x00-\x20\x7f]+", host)
    if parts.scheme not in ("http", "https") or not is_host or parts.query or parts.fragment:
        cause = f"{address!r} is not the address of a Prometheus."
        raise UsageError(cause, EXAMPLE)
    if parts.username is not None or parts.password is not None:
        cause = "A password in the address can be read by everybody on this machine."
        raise UsageError(cause, f"Put it into a file, and name that: --credentials FILE ({_FORM}).")
    is_safe = parts.scheme == "https"
    if not is_safe and (authority or certificate or key):
        cause = "Certificates need an address that begins with https://."
        raise UsageError(cause)
    if key and not certificate:
        cause = "--key needs --cert: the certificate that belongs to the key."
        raise UsageError(cause)
    bare = f"[{host}]" if ":" in host else host
    path = parts.path.rstrip("/")
    shown = f"{parts.scheme}://{bare}{f':{port}' if port else ''}{path}"
    sent = quote(path, _IN_PATHS, errors="surrogateescape")
    tls = _tls(authority, certificate, key) if is_safe else None
    authorization = _authorization(credentials) if credentials else ""
    return Access(shown, host, port or (443 if is_safe else 80), sent, authorization, tls)


def _authorization(path: str) -> str:
    try:
        text = small_content(path, _MOST_BYTES).decode().strip()
    except OSError as error:
        cause = f"{path} cannot be read: {error.strerror}."
        raise UsageError(cause, f"It should have {_FORM}.") from None
    except UnicodeDecodeError:
        text = ""
    if not text or not re.fullmatch(r"[^\x00-\x1f\x7f]+", text):
        cause = f"{path} has no credentials."
        raise UsageError(cause, f"It should have {_FORM}.")
    if ":" in text:
        return f"Basic {b64encode(text.encode()).decode()}"
    if not text.isascii() or " " in text:
        cause = f"{path} has neither a user with a password nor a token."
        raise UsageError(cause, f"It should have {_FORM}.")
    return f"Bearer {text}"


def _tls(authority: str, certificate: str, key: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=authority or None)
        if certificate:
            context.load_cert_chain(certificate, key or None, password=_no_password)
    except OSError as error:  # also what ssl says of a file with something else in it
        cause = f"The certificate files cannot be used: {error.strerror or error}."
        raise UsageError(cause, "--ca, --cert and --key name files in the form PEM.") from None
    return context


def _no_password() -> str:
    """Called for an encrypted key: raises UsageError, where OpenSSL would ask for a password on the terminal."""
    cause = "The key of the certificate has a password."
    raise UsageError(cause, "Use a key without one, readable by you alone.")
