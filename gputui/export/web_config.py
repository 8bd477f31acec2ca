"""Users, passwords and certificates, from the web configuration file that Prometheus and its exporters read.

https://prometheus.io/docs/prometheus/latest/configuration/https/ describes the file. It is read once, at the start.
"""

from __future__ import annotations

import hashlib
import ssl
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gputui.errors import GputuiError, UsageError, did_you_mean

_TLS, _USERS, _HTTP = "tls_server_config", "basic_auth_users", "http_server_config"
_TLS_KEYS = ("cert_file", "key_file", "client_ca_file", "client_auth_type", "min_version", "max_version")
_IGNORED_TLS_KEYS = ("cipher_suites", "curve_preferences", "prefer_server_cipher_suites")
_CLIENTS = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}


class WebConfig(NamedTuple):
    """Encryption and users; without both, anybody who can reach the address reads the page."""

    tls: ssl.SSLContext | None = None
    users: Users | None = None


class Users:
    """Who may read the page; passwords are known by their bcrypt hashes."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        try:
            import bcrypt
        except ImportError as error:
            cause = "Passwords are checked with bcrypt, which is not installed."
            raise GputuiError(cause, INSTALL) from error
        self._check = bcrypt.checkpw
        self._hashes = {user: words.encode() for user, words in hashes.items()}
        self._known: set[bytes] = set()
        """SHA-256 digests of headers that were right: bcrypt takes a tenth of a second on purpose."""

    def has_hash(self, user: str) -> bool:
        """Whether what stands for a user's password is a bcrypt hash."""
        try:
            self._check(b"", self._hashes[user])
        except ValueError:
            return False
        return True

    def may_read(self, authorization: str) -> bool:
        """Whether a request with this header comes from one of the users."""
        digest = hashlib.sha256(authorization.encode()).digest()
        if digest in self._known:
            return True
        user, _, password = _decoded(authorization).partition(":")
        hashed = self._hashes.get(user) or next(iter(self._hashes.values()))  # an unknown user takes as long
        is_right = self._check(password.encode()[:72], hashed) and user in self._hashes
        if is_right:
            self._known.add(digest)
        return is_right


INSTALL = 'Install it: pip install "gputui[export]".'


def read_web_config(path: str) -> WebConfig:
    """What the file says. Raises `UsageError` for a file that cannot be read or has what gputui does not know."""
    try:
        import yaml
    except ImportError as error:
        cause = "The file is read with PyYAML, which is not installed."
        raise GputuiError(cause, INSTALL) from error
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    except OSError as error:
        cause = f"{path} cannot be read: {error.strerror}."
        raise UsageError(cause) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        cause = f"{path} is not a YAML file: {' '.join(str(error).split())}."
        raise UsageError(cause) from error
    parts = _known(path, "the file", content, (_TLS, _USERS, _HTTP))
    tls = _known(path, _TLS, parts.get(_TLS), (*_TLS_KEYS, *_IGNORED_TLS_KEYS))
    users = _known(path, _USERS, parts.get(_USERS), None)
    return WebConfig(_context(Path(path), tls) if tls else None, _users(path, users) if users else None)


def _known(path: str, place: str, part: object, names: tuple[str, ...] | None) -> Mapping[str, Any]:
    """A part of the file, a mapping that may have only these names: to ignore one could leave the page unprotected."""
    if part is None:
        return {}
    if not isinstance(part, dict):
        cause = f"{path}: {place} is not a mapping."
        raise UsageError(cause)
    for name in part:
        if names is not None and name not in names:
            cause = f"{path}: {place} has {name!r}, which gputui does not know."
            raise UsageError(cause, did_you_mean(str(name), names) or f"It knows {', '.join(names)}.")
    return part


def _users(path: str, hashes: Mapping[str, Any]) -> Users:
    users = Users({user: str(hashed) for user, hashed in hashes.items()})
    for user in hashes:
        if not isinstance(user, str) or not users.has_hash(user):
            cause = f"{path}: the password of {user} is not a bcrypt hash."
            raise UsageError(cause, "`htpasswd -nBC 10 USER` makes one.")
    return users


def _context(path: Path, tls: Mapping[str, Any]) -> ssl.SSLContext:
    """The TLS context; relative paths start at the folder of the configuration file, as for all exporters."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name in ("cert_file", "key_file"):
        if not tls.get(name):
            cause = f"{path}: {_TLS} has no {name}."
            raise UsageError(cause)
    asked = str(tls.get("client_auth_type") or ("RequireAndVerifyClientCert" if tls.get("client_ca_file") else ""))
    context.minimum_version = _one_of(path, "min_version", tls.get("min_version", "TLS12"), _VERSIONS)
    context.maximum_version = _one_of(path, "max_version", tls.get("max_version", "TLS13"), _VERSIONS)
    try:
        context.load_cert_chain(path.parent / str(tls["cert_file"]), path.parent / str(tls["key_file"]))
        if tls.get("client_ca_file"):
            context.load_verify_locations(path.parent / str(tls["client_ca_file"]))
    except OSError as error:  # also what ssl says of a file with something else in it
        cause = f"{path}: the certificate files cannot be used: {error.strerror or error}."
        raise UsageError(cause) from error
    context.verify_mode = _one_of(path, "client_auth_type", asked or "NoClientCert", _CLIENTS)
    if context.verify_mode is not ssl.CERT_NONE and not tls.get("client_ca_file"):
        cause = f"{path}: client_auth_type is {asked}, and there is no client_ca_file."
        raise UsageError(cause)
    return context


def _one_of(path: Path, name: str, word: object, known: Mapping[str, Any]) -> Any:  # noqa: ANN401
    if not isinstance(word, str) or word not in known:
        cause = f"{path}: {name} is {word!r}."
        raise UsageError(cause, f"gputui knows {', '.join(known)}.")
    return known[word]


def _decoded(authorization: str) -> str:
    kind, _, words = authorization.partition(" ")
    try:
        return b64decode(words, validate=True).decode() if kind.lower() == "basic" else ""
    except (NotBase64, UnicodeDecodeError):
        return ""
