"""A server that is stopped, slow, forbidden, wrong or too large: a sentence for each, and no key ever waits for it."""

from __future__ import annotations

import socket
import ssl
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from gputui.cli import main
from gputui.errors import UsageError
from gputui.explain.fleet.missing import missing
from gputui.model.fleet.fleet import TroubleKind
from gputui.model.machine.snapshot import Attention
from gputui.sources import again
from gputui.sources.demo.fleet import DemoAnswers
from gputui.sources.prometheus import machine as machines
from gputui.sources.prometheus.access import access_to
from gputui.sources.prometheus.answers import history_of
from gputui.sources.prometheus.client import Server, ServerError
from gputui.sources.prometheus.machine import FleetMachine
from gputui.sources.prometheus.questions import Asked, Question
from tests.fleet import bad_servers
from tests.fleet.bad_servers import Request, result, serving
from tests.hanging import HANGS_S, wait_until

SOON_S = 0.2


def trouble_with(address: str, within_s: float = HANGS_S) -> ServerError:
    server = Server(access_to(address), within_s, most_bytes=1 << 20)
    with pytest.raises(ServerError) as caught:
        server.names()
    server.close()
    return caught.value


@pytest.mark.parametrize(
    ("answering", "kind", "words"),
    [
        (bad_servers.forbids, TroubleKind.FORBIDDEN, "does not let this user ask (403 Forbidden). Name a file"),
        (bad_servers.is_a_page, TroubleKind.NOT_PROMETHEUS, "is no Prometheus."),
        (bad_servers.is_other_json, TroubleKind.NOT_PROMETHEUS, "is no Prometheus."),
        (bad_servers.is_deep, TroubleKind.NOT_PROMETHEUS, "is no Prometheus."),
        (bad_servers.is_not_gzip, TroubleKind.NOT_PROMETHEUS, "is no Prometheus."),
        (bad_servers.is_cut, TroubleKind.NOT_PROMETHEUS, "is no Prometheus."),
        (bad_servers.moves, TroubleKind.NOT_PROMETHEUS, "sends elsewhere (302 to https://login.example/)"),
        (bad_servers.fails, TroubleKind.FAILING, "refuses a question: query timed out in expression."),
        (bad_servers.is_endless, TroubleKind.TOO_LARGE, "more than gputui takes (1 MiB,"),
        (bad_servers.hangs_up, TroubleKind.UNREACHABLE, "cannot be reached:"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_wrong_answer_is_a_sentence(answering: bad_servers.Answering, kind: TroubleKind, words: str) -> None:
    with serving(answering) as address:
        error = trouble_with(address)
    assert (error.kind, words in str(error)) == (kind, True), str(error)


@pytest.mark.parametrize("answering", [bad_servers.is_silent, bad_servers.drips], ids=lambda each: each.__name__)
def test_a_slow_server_is_given_up(answering: bad_servers.Answering) -> None:
    with serving(answering) as address:
        error = trouble_with(address, within_s=SOON_S)
    assert (error.kind, "has not answered a question within 0.2 s" in str(error)) == (TroubleKind.SLOW, True)


def test_a_server_that_is_stopped_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    assert main(["fleet", "--prometheus", f"127.0.0.1:{port}", "--once"]) == 1
    assert capsys.readouterr().err.startswith(
        f"gputui: http://127.0.0.1:{port} cannot be reached: Connection refused. Check that it runs,"
    )


def test_what_is_no_number_is_left_out() -> None:
    """Infinities, and rows of a matrix without points."""
    rows = result(({"a": "1"}, float("nan")), ({"a": "2"}, float("inf")), ({"a": "3"}, 3))

    def answers(request: Request) -> None:
        request.query()
        request.reply(rows)

    with serving(answers) as address:
        server = Server(access_to(address))
        assert [series.value for series in server.ask(Question(Asked.NODES, "x"))] == [3]
        server.close()


def test_points_of_a_graph_that_are_no_numbers_are_left_out() -> None:
    rows = b'[0, "0.25"], [60, "NaN"], [1e400, "0.5"], [NaN, "0.5"], [120, "+Inf"], [180, "0.75"], [240, "NaN"]'
    series = b'{"metric": {"gputui_node": "n1"}, "values": [' + rows + b"]}"

    def answers(request: Request) -> None:
        request.query()
        request.reply(b'{"status": "success", "data": {"result": [' + series + b"]}}")

    with serving(answers) as address:
        server = Server(access_to(address))
        found = server.ask_range(Question(Asked.HISTORY, "x"), 0, 240, 60)
        server.close()
    assert list(history_of(found, 0, 60, 5).values()) == [(0.25, None, None, 0.75, None)]


def test_a_path_may_have_any_letters() -> None:
    asked: list[str] = []

    def answers(request: Request) -> None:
        asked.append(request.path)
        request.reply(b'{"status": "success", "data": []}')

    with serving(answers) as address:
        server = Server(access_to(f"{address}/über uns/a:b%20c/"))
        assert server.names() == frozenset()
        server.close()
    assert asked[0].startswith("/%C3%BCber%20uns/a:b%20c/api/v1/label/__name__/values?")


def test_a_connection_that_the_server_has_closed_meanwhile_is_opened_again() -> None:
    def answers_once(request: Request) -> None:
        request.query()
        request.reply(b'{"status": "success", "data": []}')
        request.close_connection = True  # without a header that says so

    with serving(answers_once) as address:
        server = Server(access_to(address))
        assert [server.names() for _ in range(3)] == [frozenset()] * 3
        server.close()


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    return tmp_path / "credentials"


@pytest.mark.parametrize(
    ("content", "header"),
    [("ana:geheim:1\n", "Basic YW5hOmdlaGVpbTox"), ("eyJhbGciOiJI.abc\n", "Bearer eyJhbGciOiJI.abc")],
)
def test_credentials_come_from_a_file(credentials: Path, content: str, header: str) -> None:
    asked: list[str] = []

    def answers(request: Request) -> None:
        request.query()
        asked.append(request.headers.get("Authorization", ""))
        request.reply(b'{"status": "success", "data": []}')

    credentials.write_text(content)
    with serving(answers) as address:
        server = Server(access_to(address, str(credentials)))
        server.names()
        server.close()
    assert asked == [header]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--prometheus", "http://ana:x@h:1"], "A password in the address can be read by everybody on this machine."),
        (["--prometheus", "ftp://h"], "'ftp://h' is not the address of a Prometheus."),
        (["--prometheus", "http://h:99999"], "'http://h:99999' is not the address of a Prometheus: Port out of range"),
        (["--prometheus", "http://h..de:1"], "Prometheus: a name has 1 to 63 letters between"),
        (["--prometheus", f"http://{'h' * 64}.de"], "Prometheus: a name has 1 to 63 letters between"),
        (["--prometheus", "http://a b:1"], "'http://a b:1' is not the address of a Prometheus."),
        (["--prometheus", "http://h", "--ca", "x"], "Certificates need an address that begins with https://."),
        (["--prometheus", "https://h", "--ca", "/no/such"], "The certificate files cannot be used: No such file"),
        (["--prometheus", "https://h", "--key", "x"], "--key needs --cert"),
        (["--prometheus", "http://h", "--credentials", "/no/such"], "/no/such cannot be read: No such file"),
        (["--prometheus", "http://h", "--credentials", "/dev/null"], "/dev/null has no credentials."),
        (["--json", "--prometheus", "http://h"], "--json needs --once."),
        ([], "gputui fleet needs nodes, or the address of a Prometheus."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_a_sentence(capsys: pytest.CaptureFixture[str], words: list[str], sentence: str) -> None:
    assert main(["fleet", *words]) == UsageError.exit_status
    assert sentence in capsys.readouterr().err


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that nobody has signed, and its key, in one file."""
    path = tmp_path / "server.pem"
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    words += [
        "-subj",
        "/CN=127.0.0.1",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-out",
        str(path),
        "-keyout",
        str(path),
    ]
    made = subprocess.run(["openssl", *words], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return path


@pytest.mark.needs("openssl")
def test_a_certificate_is_checked_against_the_authority_that_is_named(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def answers(request: Request) -> None:
        request.query()
        request.reply(b'{"status": "success", "data": ["gputui_device_info"]}')

    with serving(answers, context) as address:
        error = trouble_with(address)
        assert (error.kind, "is not trusted" in str(error)) == (TroubleKind.CERTIFICATE, True)
        assert Server(access_to(address, authority=str(certificate))).names() == {"gputui_device_info"}


def test_the_screen_is_told_since_when_there_is_no_answer_and_never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look waits a moment for the nodes; after that, a look is one at a server that never answers."""
    monkeypatch.setattr(machines, "FIRST_WITHIN_S", 0)
    now = [1000.0]
    with serving(bad_servers.is_silent) as address:
        machine = FleetMachine(Server(access_to(address)), clock=lambda: now[0])
        wait_until(lambda: machine._waiting_since is not None)
        assert machine.look(Attention(), 1).fleet.trouble is None
        now[0] += machines.PATIENT_S
        trouble = machine.look(Attention(), 1).fleet.trouble
        assert (trouble.kind, trouble.since) == (TroubleKind.SLOW, 1000.0)
        machine.close()


def test_a_question_about_findings_that_is_too_much_leaves_the_table_as_it_is() -> None:
    class Busy(DemoAnswers):
        def ask(self, question):
            if question.asked is Asked.IDLE_IN_JOB:
                raise ServerError(TroubleKind.SLOW, "It is busy.")
            return super().ask(question)

    fleet = machines.fleet_once(Busy())
    assert {sign.kind for sign in fleet.signs} == {"gone"}  # what comes after it waits
    assert missing(fleet)[-1] == "Nothing is known of findings of the kind idle_in_job: It is busy."
    assert len(fleet.nodes) == 18


def test_while_nobody_looks_nothing_is_asked() -> None:
    machine = FleetMachine(DemoAnswers())
    machine.look(Attention(), 1)
    looked_at = machine._looked_at
    assert machine.is_watched(looked_at + machines.UNWATCHED_AFTER_S)
    machine._looked_at -= 100
    machine._wake.set()
    wait_until(machine._is_unwatched.is_set)
    asked = machine._answers.cost.questions
    machine._wake.set()  # whatever wakes it
    machine.look(Attention(), 1)
    wait_until(lambda: machine._answers.cost.questions > asked)
    machine.close()


def test_figures_stay_while_the_server_is_gone_and_it_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "AGAIN_S", 0.0)
    is_gone = [False]

    class Failing(DemoAnswers):
        def ask(self, question):
            if is_gone[0]:
                raise ServerError(TroubleKind.UNREACHABLE, "It is gone.")
            return super().ask(question)

    monkeypatch.setattr("gputui.sources.demo.fleet.SCRAPE_S", 1.0)
    machine = FleetMachine(Failing())
    fleet = machine.look(Attention(), 1).fleet
    wait_until(lambda: machine.look(Attention(), 1).fleet.time)
    is_gone[0] = True
    wait_until(lambda: machine.look(Attention(), 1).fleet.trouble)
    fleet = machine.look(Attention(), 1).fleet
    assert (fleet.trouble.text, bool(fleet.nodes)) == ("It is gone.", True)
    is_gone[0] = False
    wait_until(lambda: machine.look(Attention(), 1).fleet.trouble is None)
    machine.close()


def test_a_server_that_was_gone_for_a_day_is_still_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "AGAIN_S", 0.0)
    failures = iter(range(1500))

    class Failing(DemoAnswers):
        def ask(self, question):
            if next(failures, None) is not None:
                raise ServerError(TroubleKind.UNREACHABLE, "It is gone.")
            return super().ask(question)

    machine = FleetMachine(Failing())
    wait_until(lambda: machine.look(Attention(), 1).fleet.nodes)
    machine.close()
