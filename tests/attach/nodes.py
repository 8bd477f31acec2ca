"""A machine that ssh reaches: a real sshd with its own keys and configuration, on loopback or in its own namespaces."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from tests.attach.children import LIMIT_S, REPOSITORY, wait_until

SSHD = "/usr/sbin/sshd"
IN_NAMESPACES = """if True:
    import fcntl, socket, struct, sys
    socket.sethostname(sys.argv[1])
    UP, SIOCSIFFLAGS = 1, 0x8914
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", UP))
    print("ready", flush=True)
    sys.stdin.read()
"""
NODE = "alpha"
_PRIVILEGE_SEPARATION = Path("/run/sshd")


class Node:
    """The node, and what a viewer's environment needs to reach it: an `ssh` that reads the test's configuration."""

    def __init__(self, folder: Path, port: int, search_path: str, name: str, variables: Mapping[str, str]) -> None:
        self.folder, self.port, self.name = folder, port, name
        self._variables = {"PATH": search_path, "PYTHONPATH": str(REPOSITORY), "HOME": str(folder), **variables}
        for key in ("host", "user", "stranger"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        shutil.copy(folder / "user.pub", folder / "authorized_keys")
        self.trust((folder / "host.pub").read_text())
        self.through = ""
        """The command whose input and output are the connection, in place of a port."""
        self.login_with("user")
        self.variables = reaching(folder, [folder / "config"])

    def trust(self, key: str) -> None:
        """Expect this host key."""
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {key}")

    def login_with(self, key: str) -> None:
        """Log in with this key."""
        settings = {
            "HostName": "127.0.0.1",
            "Port": self.port,
            "User": getpass.getuser(),
            "IdentityFile": f'"{self.folder / key}"',
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": f'"{self.folder / "known_hosts"}"',
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "LocalForward": f"{self.port} 127.0.0.1:1",
            "ExitOnForwardFailure": "yes",
            **({"ProxyCommand": self.through} if self.through else {}),
        }
        lines = [f"Host {self.name}", *(f"  {name} {value}" for name, value in settings.items())]
        (self.folder / "config").write_text("\n".join(lines) + "\n")

    def configuration(self) -> Path:
        """What sshd reads; its sessions have no variables but these."""
        folder = self.folder
        lines = [
            f"ListenAddress 127.0.0.1:{self.port}",
            f'HostKey "{folder / "host"}"',
            f'AuthorizedKeysFile "{folder / "authorized_keys"}"',
            "PidFile none",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "SetEnv " + " ".join(f'"{name}={value}"' for name, value in self._variables.items()),
        ]
        path = folder / "sshd_config"
        path.write_text("\n".join(lines) + "\n")
        return path


@contextmanager
def running_node(
    folder: Path,
    *,
    name: str = NODE,
    has_gputui: bool = True,
    variables: Mapping[str, str] = MappingProxyType({}),
    is_apart: bool = False,
) -> Iterator[Node]:
    """A node; what runs there has these variables. `is_apart`: for root, with a network and a host name of its own."""
    folder.mkdir()
    if os.geteuid() == 0:
        _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    programs = folder / "there"
    programs.mkdir()
    if has_gputui:
        program = programs / "gputui"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gputui "$@"\n')
        program.chmod(0o755)
    node = Node(folder, port, f"{programs}:/usr/bin:/bin", name, variables)
    configuration = node.configuration()
    if is_apart and os.geteuid() == 0:
        with _namespaces(name) as entering:
            node.through = shlex.join([*entering, SSHD, "-i", "-f", str(configuration)])
            node.login_with("user")
            yield node
        return
    log = folder / "log"
    with log.open("wb") as errors:
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", configuration], stdin=subprocess.DEVNULL, stderr=errors)
    try:
        wait_until(lambda: server.poll() is not None or _listens(port), "listening")
        assert server.poll() is None, log.read_text()
        yield node
    finally:
        server.terminate()
        server.wait(LIMIT_S)


@contextmanager
def _namespaces(name: str) -> Iterator[list[str]]:
    """A network of its own, with nothing but loopback, and a host name: the words before a command that runs there."""
    command = ["unshare", "--net", "--uts", sys.executable, "-c", IN_NAMESPACES, name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        yield ["nsenter", "--target", str(holder.pid), "--net", "--uts"]
        holder.communicate()


def reaching(folder: Path, configurations: Iterable[Path]) -> dict[str, str]:
    """The variables with which a program finds an `ssh` in a folder that reads these configurations."""
    all_of_them = folder / "ssh_config"
    all_of_them.write_text("".join(f'Match all\nInclude "{path}"\n' for path in configurations))
    program = folder / "bin" / "ssh"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F "{all_of_them}" "$@"\n')
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
