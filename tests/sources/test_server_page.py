"""A server is asked on the port of its own command line alone, and only numbers that can be are taken from its page."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gputui.errors import GputuiError
from gputui.explain.serving.words import page_words
from gputui.model.attached.serving import ServerPage
from gputui.sources.pages import fetch
from gputui.sources.pages.server import ENGINES, page_of, port_in, server_page

VLLM, SGLANG = ENGINES
PAGE = """HTTP/1.0 200 OK

# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="llama"} 40.0
vllm:num_requests_running{engine="1",model_name="llama"} 13.0
vllm:num_requests_waiting{engine="0",model_name="llama"} 77.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="llama"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="llama"} 0.6
vllm:prefix_cache_queries_total{engine="0",model_name="llama"} 2e+06
vllm:prefix_cache_hits_total{engine="0",model_name="llama"} 240000.0
vllm:num_preemptions_total{engine="0",model_name="llama"} 3.0
"""
STARTER = """
import os, subprocess, sys
source, page, listens = sys.argv[1:]
import socket
server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
if listens == "no":
    server.close()
else:
    os.set_inheritable(server.fileno(), True)
words = [sys.executable, "-c", source, "vllm", "serve", "model", "--port", str(port), str(server.fileno()), page]
os.execv(sys.executable, words)
"""
ANSWERING = """
import os, socket, subprocess, sys
page = sys.argv[-1].encode()
words = [sys.executable, "-c", "import sys; sys.stdin.read()", "VLLM::EngineCore"]
child = subprocess.Popen(words, stdin=subprocess.PIPE)
print(sys.argv[-3], child.pid, flush=True)
if sys.argv[-2] == "-1":
    sys.stdin.read()
server = socket.socket(fileno=int(sys.argv[-2]))
while True:
    connection, _ = server.accept()
    print(connection.recv(4096).decode().partition("\\r")[0], flush=True)
    connection.sendall(page)
    connection.close()
"""


@contextmanager
def started(page: str, listens: str = "yes") -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """A process with the command line of a vLLM, its port, and the PID of its engine core."""
    command = [sys.executable, "-c", STARTER, ANSWERING, page, listens]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port, core = server.stdout.readline().split()
        try:
            yield server, int(port), int(core)
        finally:
            server.kill()


def test_the_server_of_a_process_is_asked_on_the_port_of_its_command_line():
    with started(PAGE) as (server, port, core):
        for pid in (server.pid, core):
            page = server_page(pid)
            assert page == ServerPage("vLLM", server.pid, port, 53, 77, 0.55, 2e6, 240000, None, 3)
        assert server.stdout is not None
        assert server.stdout.readline() == "GET /metrics HTTP/1.0\n"


def test_a_port_that_is_somebody_elses_is_not_asked():
    """Its command line names a port on which another process listens."""
    with started(PAGE, "no") as (server, _, core):
        for pid in (server.pid, core):
            with pytest.raises(GputuiError, match="listens on the port of a server"):
                server_page(pid)


@pytest.mark.parametrize(
    "page", ["", "HTTP/1.0 401 Unauthorized\r\n\r\n", "\x7f" * 99, "vllm:num_requests_running -3\n"]
)
def test_an_answer_without_metrics_is_a_sentence(page: str):
    with started(page or "\n") as (server, _, _), pytest.raises(GputuiError, match="answers, and not with metrics"):
        server_page(server.pid)


def test_a_server_that_does_not_answer_is_a_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetch, "_WITHIN_S", 0.05)
    with started(PAGE) as (server, port, _):
        os.kill(server.pid, signal.SIGSTOP)
        with pytest.raises(GputuiError, match=f"Port {port} of process {server.pid} does not answer: timed out."):
            server_page(server.pid)


def test_a_process_that_is_no_server_is_a_sentence():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        with pytest.raises(GputuiError, match="listens on the port of a server"):
            server_page(other.pid)
        other.kill()


def test_only_numbers_that_can_be_are_taken():
    text = "vllm:kv_cache_usage_perc 7\nvllm:num_requests_waiting nan\nvllm:num_requests_running 1e999\n"
    page = page_of(VLLM, 7, 8000, text + "vllm:num_preemptions_total 4\n")
    assert page == ServerPage("vLLM", 7, 8000, preemptions=4)


def test_sglang_has_names_of_its_own():
    page = page_of(SGLANG, 7, 30000, 'sglang:num_running_reqs{tp_rank="0"} 2\nsglang:num_queue_reqs 1\n')
    assert page_words(page) == ["SGLang on port 30000: 2 requests running, 1 waiting."]


PORTS = {
    "vllm serve model --port 8123": 8123,
    "python -m vllm.entrypoints.openai.api_server --port=8124": 8124,
    "vllm serve model --port 1 --port 2": 2,
    "vllm serve model --port 123456": None,
    "vllm serve model --port": None,
    "VLLM::APIServer": None,
}


@pytest.mark.parametrize("command", PORTS)
def test_the_port_of_a_command_line(command: str):
    assert port_in(command.split()) == PORTS[command]


def test_the_words_about_a_page():
    page = ServerPage("vLLM", 7, 80, 53, 77, 0.554, 2e6, 240000, None, 3)
    assert page_words(page) == [
        "vLLM on port 80: 53 requests running, 77 waiting; 55% of the KV cache in use; 3 preemptions since it started.",
        "12% of 2,000,000 prompt tokens were found in the prefix cache.",
    ]


def test_a_prefix_cache_that_never_hits_is_told():
    page = ServerPage("vLLM", 7, 8000, 1, 0, 0.1, 250_000, 0)
    assert page_words(page)[1].startswith("None of 250,000 prompt tokens was found in the prefix cache")
    early = ServerPage("vLLM", 7, 8000, 1, 0, 0.1, 2_000, 0)
    assert page_words(early)[1].startswith("0% of 2,000 prompt tokens")
