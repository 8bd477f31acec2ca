"""One rank of a job: its process group has as many ranks as the user says, and moves no data."""

from __future__ import annotations

import base64
import contextlib
import inspect
import os
import pickle
import weakref
from collections import deque
from functools import cache
from types import MappingProxyType
from typing import Any, Callable, Iterator, Mapping, Sequence

import torch
import torch.distributed as dist
from torch.distributed import device_mesh
from torch.utils._pytree import tree_leaves

from .tensors import SPECIAL, DeviceMode, UnsupportedError

c10d = torch.ops.c10d
IN_PLACE = (
    *("allreduce_", "allreduce_coalesced_", "broadcast_", "reduce_", "allgather_", "allgather_coalesced_"),
    *("_allgather_base_", "allgather_into_tensor_coalesced_", "reduce_scatter_", "_reduce_scatter_base_"),
    *("reduce_scatter_tensor_coalesced_", "scatter_", "gather_", "alltoall_", "alltoall_base_", "send", "recv_"),
    *("recv_any_source_", "barrier", "monitored_barrier_"),
)
"""Collectives that write into tensors which the program passes."""
FAKE = "fake"


class NoRanksError(Exception):
    """The program joins a job, and the user did not say of how many ranks."""


class Job:
    """What is known of the job beside the environment: its mesh, and objects `received` from the rank before (base64).

    `sent` are the pickled objects that this rank sends, such as the shapes of what a stage of a pipeline returns.
    """

    def __init__(self, mesh: Mapping[str, int] = MappingProxyType({}), received: Sequence[str] = ()) -> None:
        self.mesh = mesh
        self.sent: list[bytes] = []
        self._received = deque(map(base64.b64decode, received))

    def send_objects(self, objects: Sequence[Any], *_: Any, **__: Any) -> None:
        """In place of send_object_list."""
        self.sent.append(pickle.dumps(list(objects)))

    def receive_objects(self, into: list[Any], src: int | None = None, *_: Any, **__: Any) -> None:
        """In place of recv_object_list: objects of the rank before, or the gradients that the next stage answers."""
        sent = pickle.loads(self.sent[-1])[0] if self.sent else None
        if src is not None and src > dist.get_rank() and hasattr(sent, "forward_metas"):
            into[:] = [_gradients_of(sent)]
            return
        if not self._received:
            raise UnsupportedError("recv_object_list", "what the stage before sends is known with --mesh pp=N alone")
        into[:] = pickle.loads(self._received.popleft())  # the rank before was rehearsed here


def _gradients_of(sent: Any) -> Any:
    """What the next stage of a pipeline answers to `sent`: the shapes of its gradients (since PyTorch 2.13)."""
    from torch.distributed.pipelining import _utils

    return _utils._StageBackwardMeta(_utils._derive_grad_metas(sent.forward_metas))  # type: ignore[attr-defined]


def answers_for_ranks(job: Job) -> Iterator[Any]:
    """Triples for `choices.replace`: an owner, a name, and what replaces it, for the rank that the environment says."""
    for name in IN_PLACE:
        packet = getattr(c10d, name, None)
        if packet is not None:
            SPECIAL[packet.default] = _collective(packet.default)
    SPECIAL[torch.ops._c10d_functional.wait_tensor.default] = lambda _mode, tensor: tensor
    joining = _joining(dist.init_process_group)
    for owner in (dist, dist.distributed_c10d, device_mesh):
        yield owner, "init_process_group", joining
    for owner in (dist, dist.distributed_c10d):
        yield owner, "new_group", _of_the_same_kind(dist.new_group)
        yield owner, "all_gather_object", _gather_objects
        yield owner, "gather_object", _gather_objects_here
        yield owner, "send_object_list", job.send_objects
        yield owner, "recv_object_list", job.receive_objects
        yield owner, "broadcast_object_list", lambda *_, **__: None
        yield owner, "is_nccl_available", lambda: True
    from torch.nn.parallel import distributed

    yield distributed, "_verify_param_shape_across_processes", lambda *_, **__: True
    if "WORLD_SIZE" in os.environ:
        with contextlib.suppress(ImportError):  # before 2.5
            from torch.distributed.tensor import experimental

            yield experimental, "context_parallel", _context_parallel
        with contextlib.suppress(ImportError):  # before 2.5
            from torch.distributed.pipelining.schedules import _PipelineSchedule

            if hasattr(_PipelineSchedule, "_warmup_p2p"):
                yield _PipelineSchedule, "_warmup_p2p", _agree_on_shapes


def arguments_of_mesh(function: Callable[..., Any], mesh: Mapping[str, int]) -> dict[str, Any]:
    """The arguments that a function takes of the mesh: sizes by the names of dimensions, the DeviceMesh as `mesh`."""
    taken = inspect.signature(function).parameters if mesh else {}
    arguments: dict[str, Any] = {name: size for name, size in mesh.items() if name in taken}
    if "mesh" in taken:
        arguments["mesh"] = device_mesh.init_device_mesh("cuda", tuple(mesh.values()), mesh_dim_names=tuple(mesh))
    return arguments


def _context_parallel(*_: Any, **__: Any) -> Any:
    raise UnsupportedError("context_parallel", "how the ranks share a sequence is not computed")


def _collective(func: Any) -> Callable[..., Any]:
    """A collective that moves nothing: its first argument is its result, and its work is done."""
    kinds = [str(one.type) for one in func._schema.returns]

    def run(_mode: DeviceMode, *args: Any, **_: Any) -> Any:
        work = _done(args[0]).boxed()
        results = [work if kind.endswith("Work") else args[0] for kind in kinds]
        return results[0] if len(results) == 1 else tuple(results)

    return run


_kept: deque[Any] = deque(maxlen=1 << 12)
"""The newest works: C++ keeps a work alive, but not its Python object."""


def _done(tensors: Any) -> Any:
    """A work that is done; it refers to its result weakly, so that it does not keep the tensors alive."""
    results = [weakref.ref(tensor) for tensor in tree_leaves(tensors) if isinstance(tensor, torch.Tensor)]

    class Work(dist._Work):  # type: ignore[name-defined]
        def wait(self, *_: Any) -> bool:
            return True

        def get_future(self) -> Any:
            future: Any = torch.futures.Future()
            future.set_result([tensor for tensor in (result() for result in results) if tensor is not None])
            return future

    work = Work()
    _kept.append(work)
    return work


def _joining(join: Callable[..., None]) -> Callable[..., None]:
    """init_process_group, with a process group that moves nothing."""

    def init_process_group(backend: Any = None, *args: Any, **options: Any) -> None:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        _change_wrappers()
        if backend == FAKE:
            join(backend, *args, **options)
        elif "WORLD_SIZE" not in os.environ:
            raise NoRanksError
        else:
            rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            join(FAKE, rank=rank, world_size=world_size, store=FakeStore())

    return init_process_group


@cache
def _change_wrappers() -> None:
    """Keep wrapper tensors, such as DTensors, from asking for a GPU; done once, however often the program joins."""
    from torch._subclasses import fake_tensor
    from torch.distributed._functional_collectives import AsyncCollectiveTensor
    from torch.distributed.tensor import DTensor

    for name in ("init_gpu_context", "init_cuda_context"):  # DTensor asks for sizes by fake tensors on the GPU
        if hasattr(fake_tensor, name):
            setattr(fake_tensor, name, lambda *_: None)
    DTensor.device = property(lambda tensor: tensor._local_tensor.device)  # type: ignore[assignment, misc]
    AsyncCollectiveTensor.device = property(lambda tensor: tensor.elem.device)  # type: ignore[assignment, misc]
    make = torch.Tensor._make_wrapper_subclass  # type: ignore[attr-defined]
    wrappers = frozenset((DTensor, AsyncCollectiveTensor))
    torch.Tensor._make_wrapper_subclass = _on_no_gpu(make, wrappers)  # type: ignore[attr-defined, method-assign]


def _on_no_gpu(make: Callable[..., Any], wrappers: frozenset[type]) -> Callable[..., Any]:
    """Make wrappers on the meta device: on that of their tensors, autograd (of 2.8) would ask a GPU for its stream."""

    def made(cls: type, *args: Any, **options: Any) -> Any:
        return make(cls, *args, **({**options, "device": "meta"} if cls in wrappers else options))

    return made


def _agree_on_shapes(_schedule: Any, stages: Sequence[Any], has_backward: bool, _p2p_done: bool) -> None:
    """Decide for each stage whether it must be sent its shapes; PyTorch 2.13 would ask the other ranks for that."""
    from torch.distributed.pipelining.stage import InferenceMode  # type: ignore[attr-defined]

    for stage in stages:
        is_told = not InferenceMode.needs_dynamic(stage._user_meta, has_backward)
        stage._inference_mode = InferenceMode.STATIC if is_told else InferenceMode.DYNAMIC


def _of_the_same_kind(new_group: Callable[..., Any]) -> Callable[..., Any]:
    """new_group, without the backend that the program asks for."""

    def made(ranks: Any = None, *_: Any, **options: Any) -> Any:
        kept = {name: options[name] for name in ("group_desc", "use_local_synchronization") if name in options}
        return new_group(ranks, **kept)

    return made


def _gather_objects_here(one: Any, into: Any = None, *_: Any, **__: Any) -> None:
    if into:
        _gather_objects(into, one)


def _gather_objects(into: Sequence[Any], one: Any, *_: Any, **__: Any) -> None:
    into[:] = [one] * len(into)  # type: ignore[index]
