"""Pages of exporters, as a scraper reads them: gputui's own, and others' in the form that their documentation shows."""

from __future__ import annotations

from collections.abc import Iterable

from tests.export.pages import Scrapes
from tests.export.readings import cluster_node
from tests.export.test_page import Fixed

MIB = 1 << 20
USED_MIB, TOTAL_MIB, FREE_MIB = 20_480, 81_920, 61_440


def uuid(node: int, gpu: int) -> str:
    """The UUID of a GPU, which all exporters of its node know."""
    return f"GPU-{gpu:08x}-{node:04d}-5678-9abc-def012345678"


def gputui(node: int, *, gpus: int = 2, first_rank: int = 0, world: int = 4) -> str:
    """A node with a rank of Slurm job 4711 on each GPU; the ranks hold a little more each."""
    text = Scrapes(Fixed(cluster_node(gpus=gpus, ranks=gpus))).page().text.replace("-1234-5678-", f"-{node:04d}-5678-")
    for rank in reversed(range(gpus)):
        text = text.replace(f',rank="{rank}"', f',rank="{first_rank + rank}"')
    return text.replace(f'world_size="{gpus}"', f'world_size="{world}"')


def _lines(rows: Iterable[tuple[str, str, float]]) -> str:
    return "".join(f"{name}{{{labels}}} {value}\n" for name, labels, value in rows)


def dcgm(node: int, *, gpus: int = 2, pods: int = 1) -> str:
    """dcgm-exporter with the names before 4.9; with several pods, each GPU once for each."""
    rows = []
    for gpu in range(gpus):
        for pod in range(pods):
            of = (
                f'gpu="{gpu}",UUID="{uuid(node, gpu)}",pci_bus_id="00000000:0{gpu}:00.0",device="nvidia{gpu}",'
                f'modelName="NVIDIA A100-SXM4-80GB",Hostname="dcgm-exporter-x{node}"'
            )
            of += f',pod="worker-{pod}",namespace="ml"' if pods > 1 else ""
            rows += [
                ("DCGM_FI_DEV_GPU_UTIL", of, 50),
                ("DCGM_FI_DEV_FB_USED", of, USED_MIB),
                ("DCGM_FI_DEV_FB_FREE", of, FREE_MIB),
                ("DCGM_FI_DEV_GPU_TEMP", of, 44),
                ("DCGM_FI_DEV_POWER_USAGE", of, 250.5),
                ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", of, 9223372036854775794),
                ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", of, 0.25),
            ]
    return _lines(rows)


def dcgm_mig(node: int) -> str:
    """One GPU with two instances: what is the GPU's is there for each, and memory is each one's own."""
    rows = []
    for instance in (1, 2):
        of = (
            f'gpu="0",UUID="{uuid(node, 0)}",device="nvidia0",modelName="NVIDIA A100",GPU_I_PROFILE="3g.40gb",'
            f'GPU_I_ID="{instance}",Hostname="node{node}"'
        )
        rows += [
            ("DCGM_FI_DEV_FB_USED", of, USED_MIB / 2),
            ("DCGM_FI_DEV_FB_FREE", of, FREE_MIB / 2),
            ("DCGM_FI_DEV_GPU_TEMP", of, 40),
            ("DCGM_FI_DEV_POWER_USAGE", of, 300),
        ]
    return _lines(rows)


def dcgm_new(node: int, *, gpus: int = 2) -> str:
    """dcgm-exporter with the names since 4.9, in base units."""
    rows = []
    for gpu in range(gpus):
        of = f'gpu="{gpu}",UUID="{uuid(node, gpu)}",device="nvidia{gpu}",modelName="NVIDIA H200",hostname="pod-{node}"'
        rows += [
            ("DCGM_FI_DEV_GPU_UTIL_RATIO", of, 0.75),
            ("DCGM_FI_DEV_FB_USED_BYTES", of, USED_MIB * MIB),
            ("DCGM_FI_DEV_FB_CAPACITY_BYTES", of, TOTAL_MIB * MIB),
            ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", of, 55),
            ("DCGM_FI_DEV_BOARD_POWER_WATTS", of, 400.25),
            ("DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", of, 700),
            ("DCGM_FI_PROF_TENSOR_UTIL_RATIO", of, 0.5),
        ]
    return _lines(rows)


def smi(node: int, *, gpus: int = 2) -> str:
    """nvidia_gpu_exporter, whose UUIDs lack "GPU-"."""
    rows = []
    for gpu in range(gpus):
        bare = uuid(node, gpu).removeprefix("GPU-")
        of = f'uuid="{bare}"'
        rows += [
            ("nvidia_smi_gpu_info", f'{of},name="NVIDIA GeForce RTX 4090",index="{gpu}",driver_version="550.54"', 1),
            ("nvidia_smi_utilization_gpu_ratio", of, 1),
            ("nvidia_smi_memory_used_bytes", of, USED_MIB * MIB),
            ("nvidia_smi_memory_total_bytes", of, TOTAL_MIB * MIB),
            ("nvidia_smi_power_draw_watts", of, 350),
            ("nvidia_smi_enforced_power_limit_watts", of, 450),
            ("nvidia_smi_temperature_gpu", of, 66),
        ]
    return _lines(rows)


FLEET = {
    "node1:10836": gputui(1),
    "node2:10836": gputui(2, first_rank=2),
    "node3:10836": gputui(3, world=2),
    "node3:9400": dcgm(3),
    "node4:9400": dcgm(4, pods=3),
    "node5:9400": dcgm_new(5),
    "node6:9835": smi(6),
    "node7:9400": dcgm_mig(7),
}
"""Pages by `instance`: one node has two exporters, on one three pods share each GPU, and one has MIG."""
GPUS = {"node1": 2, "node2": 2, "node3": 2, "node4": 2, "node5": 2, "node6": 2, "node7": 1}
