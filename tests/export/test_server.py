"""`gputui export` as scrapers and browsers find it: addresses, formats, users, certificates, clients that misbehave."""

from __future__ import annotations

import gzip
import socket
import ssl
import subprocess
import sys
import threading
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.error import HTTPError

import bcrypt
import pytest

from gputui.cli import main
from gputui.errors import GputuiError, UsageError
from gputui.export.application import application
from gputui.export.collector import MachineCollector
from gputui.export.server import Address, Server, address_of
from gputui.export.sources import Readings, Source
from gputui.export.web_config import WebConfig, read_web_config
from tests.conftest import FakeGpus
from tests.export.pages import OPEN_METRICS, PLAIN, Page, exporter, get
from tests.export.readings import cluster_node
from tests.hanging import HANGS_S, wait_until

PROBLEM = "Process 1 <script> has not answered."


class OneNode:
    """Sources of a small node, with a problem that a browser must not run."""

    def read(self) -> Readings:
        return cluster_node(gpus=1, ranks=1)._replace(problems=((Source.PROBE, PROBLEM),))


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    return tmp_path / "web.yml"


@contextmanager
def serving(config: WebConfig = WebConfig()) -> Iterator[str]:  # noqa: B008 - it is immutable
    """The address of a server in this process."""
    server = Server(Address("127.0.0.1", 0), application(MachineCollector(OneNode()), config.users), config)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_command_serves_until_it_is_ended(fake_gpus: FakeGpus) -> None:
    fake_gpus.up(1, busy=True)
    with exporter(environment=fake_gpus.environment) as url:
        wait_until(lambda: Page(get(f"{url}metrics")).of("gputui_device_busy_ratio", gpu=0) == [0.93])
        assert get(f"{url}-/healthy") == "gputui exporter is healthy.\n"
        assert url.startswith("http://127.0.0.1:")


def test_open_metrics_come_when_asked_for() -> None:
    with serving() as url:
        page = Page(get(f"{url}metrics", OPEN_METRICS), OPEN_METRICS)
        assert page.names == Page(get(f"{url}metrics", PLAIN)).names
        assert page.text.endswith("# EOF\n")
        packed = urllib.request.Request(f"{url}metrics", headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(packed, timeout=HANGS_S) as answer:
            assert b"gputui_device_info" in gzip.decompress(answer.read())
        assert Page(get(f"{url}metrics?name[]=gputui_device_lost")).names == {"gputui_device_lost"}


def test_the_landing_page_says_what_could_not_be_read() -> None:
    with serving() as url:
        assert "<ul>" not in get(url)
        get(f"{url}metrics")
        landing = get(url)
    assert "probe: Process 1 &lt;script&gt; has not answered." in landing
    assert '<a href="/metrics">' in landing


def test_any_other_page_is_not_found() -> None:
    with serving() as url, pytest.raises(HTTPError, match="404"):
        get(f"{url}nothing")


def test_a_client_that_says_nothing_or_goes_away_keeps_no_other_waiting(capfd: pytest.CaptureFixture[str]) -> None:
    with serving() as url:
        place = ("127.0.0.1", int(url.rstrip("/").rpartition(":")[2]))
        with closing(socket.create_connection(place)), closing(socket.create_connection(place)) as cut:
            cut.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            cut.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset as it is closed
            cut.close()
            assert "gputui_device_info" in get(f"{url}metrics")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("words", "address"),
    [("127.0.0.1:9", ("127.0.0.1", 9)), (":9", ("", 9)), ("[::1]:0", ("::1", 0)), ("node7:65535", ("node7", 65535))],
)
def test_addresses(words: str, address: tuple[str, int]) -> None:
    assert address_of(words) == address


@pytest.mark.parametrize("words", ["9400", "127.0.0.1", "host:http", "host:65536", "::1:9", "host:-1"])
def test_what_is_no_address_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="is not an address to listen on"):
        address_of(words)


def test_a_port_that_is_taken_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        assert main(["export", "--listen", f"127.0.0.1:{port}"]) == 1
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors == (
        f"gputui: Another program listens on 127.0.0.1, port {port} already. "
        "`ss -ltnp` says which; choose another port with --listen HOST:PORT.\n"
    )


def test_an_address_of_another_machine_is_said() -> None:
    with pytest.raises(UsageError, match=r"has no address 192\.0\.2\.1"):
        Server(Address("192.0.2.1", 0), application(MachineCollector(OneNode())), WebConfig())


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        ("prometheus_client", "gputui export needs the library prometheus-client, which is not installed."),
        ("yaml", "The file is read with PyYAML, which is not installed."),
        ("bcrypt", "Passwords are checked with bcrypt, which is not installed."),
    ],
)
def test_without_a_library_the_extra_is_named(
    config_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, module: str, sentence: str
) -> None:
    config_file.write_text("basic_auth_users: {ana: $2b$}")
    for imported in [name for name in sys.modules if name.startswith("gputui.export.")]:
        monkeypatch.delitem(sys.modules, imported)
    monkeypatch.setitem(sys.modules, module, None)
    assert main(["export", "--web.config.file", str(config_file)]) == 1
    assert capsys.readouterr().err == f'gputui: {sentence} Install it: pip install "gputui[export]".\n'


def basic(words: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(words.encode()).decode()}"}


def test_only_users_with_their_password_read_the_page(config_file: Path) -> None:
    hashed = bcrypt.hashpw(b"rosebud", bcrypt.gensalt(4)).decode()
    config_file.write_text(f"basic_auth_users:\n  prometheus: {hashed}\n")
    with serving(read_web_config(str(config_file))) as url:
        for _ in range(2):
            assert "gputui_device_info" in get(f"{url}metrics", headers=basic("prometheus:rosebud"))
        for wrong in ("prometheus:other", "ana:rosebud", "prometheus:", "", ":"):
            with pytest.raises(HTTPError, match="401"):
                get(f"{url}metrics", headers=basic(wrong))
        for headers in ({}, {"Authorization": "Basic ???"}, {"Authorization": "Bearer rosebud"}):
            with pytest.raises(HTTPError, match="401"):
                get(url, headers=headers)


def certificate(folder: Path) -> None:
    """A key and a certificate of 127.0.0.1."""
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=node7 -addext"
    files = ["subjectAltName=IP:127.0.0.1", "-keyout", "node.key", "-out", "node.crt"]
    subprocess.run(["openssl", *words.split(), *files], cwd=folder, check=True, capture_output=True)


@pytest.mark.needs("openssl")
def test_the_page_is_served_over_tls(config_file: Path) -> None:
    certificate(config_file.parent)
    config_file.write_text("tls_server_config:\n  cert_file: node.crt\n  key_file: node.key\n")
    context = ssl.create_default_context(cafile=str(config_file.parent / "node.crt"))
    with serving(read_web_config(str(config_file))) as url:
        assert url.startswith("https://")
        place = ("127.0.0.1", int(url.rstrip("/").rpartition(":")[2]))
        silent = closing(socket.create_connection(place))  # a handshake that never comes
        with silent, urllib.request.urlopen(f"{url}metrics", timeout=HANGS_S, context=context) as answer:
            assert b"gputui_device_info" in answer.read()


@pytest.mark.needs("openssl")
def test_a_client_without_a_certificate_is_refused_where_one_is_required(config_file: Path) -> None:
    certificate(config_file.parent)
    own = "cert_file: node.crt\n  key_file: node.key\n  client_ca_file: node.crt"
    config_file.write_text(f"tls_server_config:\n  {own}\n  client_auth_type: RequireAndVerifyClientCert\n")
    authority = str(config_file.parent / "node.crt")
    with_one, without = ssl.create_default_context(cafile=authority), ssl.create_default_context(cafile=authority)
    with_one.load_cert_chain(authority, config_file.parent / "node.key")
    with serving(read_web_config(str(config_file))) as url:
        with urllib.request.urlopen(f"{url}metrics", timeout=HANGS_S, context=with_one) as answer:
            assert answer.status == 200
        with pytest.raises(OSError, match=r"alert|EOF|reset"):
            urllib.request.urlopen(f"{url}metrics", timeout=HANGS_S, context=without).read()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("basic_auth_users: {ana: rosebud}", "the password of ana is not a bcrypt hash. `htpasswd -nBC 10 USER`"),
        ("basic_auth_users: {ana: $2y$10$rosebud}", "the password of ana is not a bcrypt hash."),
        (
            "basic_auth_user: {ana: x}",
            "has 'basic_auth_user', which gputui does not know. Did you mean basic_auth_users",
        ),
        ("basic_auth_users: ana", "basic_auth_users is not a mapping"),
        ("tls_server_config: {cert_file: a}", "tls_server_config has no key_file"),
        ("tls_server_config: {cert_file: a, key_file: b}", "the certificate files cannot be used: No such file"),
        ("tls_server_config: {cert_file: a, key_file: b, min_version: TLS10}", "min_version is 'TLS10'. gputui knows"),
        ("tls_server_config: {cert_file: a, key_file: b, max_version: [TLS12]}", "max_version is ['TLS12']."),
        ("a: [", "is not a YAML file"),
        ("- a", "the file is not a mapping"),
    ],
)
def test_a_file_with_a_fault_is_refused(config_file: Path, content: str, sentence: str) -> None:
    config_file.write_text(content)
    with pytest.raises(GputuiError) as refused:
        read_web_config(str(config_file))
    assert sentence in str(refused.value)


def test_a_missing_file_is_refused(config_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--web.config.file", str(config_file)]) == 2
    assert capsys.readouterr().err == f"gputui: {config_file} cannot be read: No such file or directory.\n"
