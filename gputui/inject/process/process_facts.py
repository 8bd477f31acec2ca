"""What /proc says about another process and about this one: all by which refusals are decided."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass

from gputui.inject.process.foreign_files import has_same_root
from gputui.inject.process.images import Mapping, mappings

CAP_SYS_PTRACE = 1 << 19
YAMA_FILE = "/proc/sys/kernel/yama/ptrace_scope"
_TORCH = ("/libtorch_python.so", "/libtorch_cpu.so", "/libtorch.so")
_GPUS = ("/dev/nvidia", "/dev/kfd")
_MAX_DESCENDANTS = 500
_MOST_ANCESTORS = 16
ENGINE_TITLES = ("VLLM::EngineCore", "VLLM::Worker", "sglang::scheduler")
SERVER_TITLES = ("VLLM::", "sglang::")
"""What the titles of a server's processes begin with. The process that starts them keeps its own command line."""
_NS_GET_PARENT = 0xB702
_MOST_USER_NAMESPACES = 32
"""Linux nests no more."""


@dataclass(frozen=True, slots=True)
class Caller:
    """This process, with its effective user, group and capabilities, and whether it is in a jail of seccomp."""

    uid: int
    gid: int
    capabilities: int
    user_namespace: str
    has_filters: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """One process. `inner_pid`: its PID in its container; `mapped`: None if it may not be read; `tracer`: 0 if none."""

    pid: int
    caller: Caller
    name: str
    command: str
    executable: str
    state: str
    uid: int
    gids: frozenset[int]
    """Its real, effective and saved group: a debugger must be of each of them."""
    gid: int
    other_groups: tuple[int, ...]
    """Its supplementary groups, which with `uid` and `gid` decide what it may reach in the file system."""
    inner_pid: int
    tracer: int
    tracer_name: str
    capabilities: int
    caught_signals: int
    """A bit for each signal that has a handler, the lowest for signal 1."""
    seccomp_mode: int
    has_own_filters: bool
    has_shadow_stack: bool
    is_dumpable: bool
    is_in_this_user_namespace: bool
    """Whether it is in this process's user namespace or in one below, where capabilities of this process count."""
    knows_caller: bool
    """Whether this process's user exists in its user namespace; the probe serves nobody whom it cannot identify."""
    is_elsewhere: bool
    """Whether it has another root, PID or mount namespace, as in a container."""
    environment: dict[str, str]
    mapped: list[Mapping] | None
    yama_scope: int | None

    @property
    def has_torch(self) -> bool:
        """Whether PyTorch's libraries are mapped."""
        return has_torch(self.mapped or [])


def read(pid: int) -> Facts:
    """The facts about a process; raises OSError if there is none."""
    status = _status(pid)
    inner = int(status.get("NSpid", str(pid)).split()[-1])
    tracer = int(status.get("TracerPid", "0"))
    caller = _caller()
    user_namespace = _link(pid, "ns/user")
    return Facts(
        pid=pid,
        caller=caller,
        name=status.get("Name", ""),
        command=_text(pid, "cmdline").replace("\0", " ").strip(),
        executable=_link(pid, "exe"),
        state=status.get("State", "?")[0],
        uid=int(status["Uid"].split()[1]),
        gids=frozenset(map(int, status["Gid"].split()[:3])),
        gid=int(status["Gid"].split()[1]),
        other_groups=tuple(map(int, status.get("Groups", "").split())),
        inner_pid=inner,
        tracer=tracer,
        tracer_name=_text(tracer, "comm").strip() if tracer else "",
        capabilities=int(status.get("CapPrm", "0"), 16),
        caught_signals=int(status.get("SigCgt", "0"), 16),
        seccomp_mode=int(status.get("Seccomp", "0")),
        has_own_filters=_has_own_filters(pid, status),
        has_shadow_stack="shstk" in status.get("x86_Thread_features", ""),
        is_dumpable=os.stat(f"/proc/{pid}/maps").st_uid == int(status["Uid"].split()[1]),
        is_in_this_user_namespace=user_namespace == caller.user_namespace or _is_in_or_below(pid, caller),
        knows_caller=user_namespace in ("", caller.user_namespace) or _knows(pid, caller.uid),
        is_elsewhere=inner != pid or _link(pid, "ns/mnt") != _link(os.getpid(), "ns/mnt") or not has_same_root(pid),
        environment=_environment(pid),
        mapped=_mapped(pid),
        yama_scope=_yama_scope(),
    )


def is_running(pid: int) -> bool:
    """Whether a process has not ended: an ended one (a zombie) can still be in the table of processes."""
    try:
        return _status(pid).get("State", "X")[0] not in "ZX"
    except OSError:
        return False


def has_torch(mapped: list[Mapping]) -> bool:
    """Whether a process with these mappings has loaded PyTorch."""
    return any(name in mapping.path for mapping in mapped for name in _TORCH)


def workers_of(pid: int) -> list[int]:
    """The processes that do a launcher's work: its ranks, otherwise the descendants that have loaded PyTorch.

    Processes that these have started, such as the workers of a data loader, are left out. A first rank that has started
    the others, as under Lightning, is one of them.
    """
    loaded = [child for child in _descendants(pid) if has_torch(_mapped(child) or [])]
    numbers = {child: number for child in loaded if (number := _environment(child).get("LOCAL_RANK")) is not None}
    first = [pid] if _is_first_rank(pid, numbers) else []
    workers = [child for child, number in numbers.items() if not first or number != "0"] if numbers else loaded
    below = {descendant for worker in workers for descendant in _descendants(worker)}
    return [*first, *(worker for worker in workers if worker not in below)]


def _is_first_rank(pid: int, numbers: dict[int, str]) -> bool:
    """Whether a process trains beside those that it has started, which have these numbers (LOCAL_RANK).

    What it has set itself is not in /proc. A worker of its data loader has its number, too, but uses no GPU.
    """
    gpu_users = {one for one in (pid, *numbers) for mapping in _mapped(one) or [] if mapping.path.startswith(_GPUS)}
    rivals = gpu_users if pid in gpu_users else numbers
    return bool(numbers) and has_torch(_mapped(pid) or []) and "0" not in map(numbers.get, rivals)


def ranks_of(pid: int) -> list[int]:
    """The ranks of the job that a process has launched: torchrun itself loads PyTorch too, but trains nothing."""
    workers = [] if "LOCAL_RANK" in _environment(pid) else workers_of(pid)
    return [worker for worker in workers if pid not in workers and "LOCAL_RANK" in _environment(worker)]


def engines_of(pid: int) -> list[int]:
    """The processes that hold the model and the cache of a server, whichever of its processes is named.

    They are known by the titles that they give themselves. vLLM's engine core starts the workers of tensor parallelism.
    """
    front = _front_of(pid)
    return [one for one in (front, *_descendants(front)) if _text(one, "cmdline").startswith(ENGINE_TITLES)]


def _front_of(pid: int) -> int:
    """The process that started a server's others or, if it has ended, the oldest of them, which init has adopted."""
    program = _link(pid, "exe")
    for _ in range(_MOST_ANCESTORS):
        if not program or not _text(pid, "cmdline").startswith(SERVER_TITLES):
            break
        parent = int(_status_if_there(pid).get("PPid", "0"))
        if not parent or _link(parent, "exe") != program:
            break
        pid = parent
    return pid


def may_attach() -> tuple[str, str]:
    """Why this process may not attach to other programs of its user, and a remedy; two empty texts if it may."""
    scope = _yama_scope() or 0
    if scope == 0 or (scope < 3 and _caller().capabilities & CAP_SYS_PTRACE):
        return "", ""
    rule = f"{YAMA_FILE} is {scope}: programs started without the probe cannot be attached to by this user."
    remedies = {1: "sudo sysctl kernel.yama.ptrace_scope=0, or sudo gputui attach PID", 2: "sudo gputui attach PID"}
    return rule, remedies.get(scope, "Start programs with gputui run.")


def _descendants(pid: int) -> Iterator[int]:
    """Children, their children and so on; children of other threads than the first are known by the kernel alone."""
    waiting, seen = [pid], 0
    while waiting and seen < _MAX_DESCENDANTS:
        parent = waiting.pop(0)
        for task in _names(f"/proc/{parent}/task"):
            for child in _text(parent, f"task/{task}/children").split():
                seen += 1
                waiting.append(int(child))
                yield int(child)


def _caller() -> Caller:
    status = _status(os.getpid())
    return Caller(
        uid=os.geteuid(),
        gid=os.getegid(),
        capabilities=int(status.get("CapEff", "0"), 16),
        user_namespace=_link(os.getpid(), "ns/user"),
        has_filters=status.get("Seccomp") == "2",
    )


def _is_in_or_below(pid: int, caller: Caller) -> bool:
    """Whether a process is in the caller's user namespace, or in one that was made in that, and so on.

    A protected process and one outside do not show their namespace, but how their users are numbered.
    """
    try:
        namespace = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return _text(pid, "uid_map") == _text(os.getpid(), "uid_map")
    is_below = False
    for _ in range(_MOST_USER_NAMESPACES):
        try:
            above = fcntl.ioctl(namespace, _NS_GET_PARENT)
        except OSError:  # EPERM: the next one is not below the caller's
            break
        os.close(namespace)
        namespace = above
        is_below = f"user:[{os.fstat(namespace).st_ino}]" == caller.user_namespace
        if is_below:
            break
    os.close(namespace)
    return is_below


def _knows(pid: int, uid: int) -> bool:
    """Whether a user has a number in the user namespace of a process, which is another one than this process's."""
    lines = [list(map(int, line.split())) for line in _text(pid, "uid_map").splitlines()]
    return any(outside <= uid < outside + count for _, outside, count in lines)


def _status(pid: int) -> dict[str, str]:
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace", newline="\n") as file:
        pairs = (line.partition(":") for line in file)
        return {name: value.strip() for name, _, value in pairs}


def _has_own_filters(pid: int, status: dict[str, str]) -> bool:
    """Whether it has more system call filters than its container's first process, which has those of the container."""
    if status.get("Seccomp") != "2":
        return False
    first = _first_of_namespace(pid, len(status.get("NSpid", "").split()))
    filters = int(status.get("Seccomp_filters", "0"))
    return filters > int(first.get("Seccomp_filters", filters))


def _first_of_namespace(pid: int, depth: int) -> dict[str, str]:
    """The status, in this /proc, of the process that has PID 1 in the PID namespace of `pid`; {} if it is not found.

    The container's /proc is not read: anything may lie there. Where namespaces of other users' processes are not shown,
    the ancestor that has PID 1 in its own namespace, at the same depth, is taken.
    """
    namespace = _link(pid, "ns/pid")
    for other in sorted(map(int, filter(str.isdecimal, _names("/proc")))):
        if namespace and _link(other, "ns/pid") == namespace:
            status = _status_if_there(other)
            if _is_first(status, depth):
                return status
    ancestor = _status_if_there(pid)
    while ancestor and not _is_first(ancestor, depth):
        ancestor = _status_if_there(int(ancestor.get("PPid", "0")))
    return ancestor


def _is_first(status: dict[str, str], depth: int) -> bool:
    inside = status.get("NSpid", "").split()
    return len(inside) == depth and inside[-1:] == ["1"]


def _status_if_there(pid: int) -> dict[str, str]:
    try:
        return _status(pid)
    except OSError:
        return {}


def _environment(pid: int) -> dict[str, str]:
    entries = (entry.partition("=") for entry in _text(pid, "environ").split("\0"))
    return {name: value for name, equals, value in entries if equals}


def _mapped(pid: int) -> list[Mapping] | None:
    try:
        return mappings(pid)
    except OSError:
        return None


def _yama_scope() -> int | None:
    try:
        with open(YAMA_FILE, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _link(pid: int, name: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return ""


def _text(pid: int, name: str) -> str:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return os.fsdecode(file.read(131_072))
    except OSError:
        return ""


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
