"""Which exporters tell of a fleet, and which figures none of them has, in sentences."""

from __future__ import annotations

from typing import NamedTuple

from gputui.model.fleet.exporters import Exporter, Quantity
from gputui.model.fleet.fleet import Fleet


class Lack(NamedTuple):
    """What a user does not see where a quantity is not exported, and which exporter has it."""

    quantity: Quantity
    words: str
    remedy: str


LACKS = (
    Lack(Quantity.BUSY, "utilisation", "dcgm-exporter has no utilisation of GPUs with MIG"),
    Lack(Quantity.TENSOR, "use of the tensor cores", "gputui export has it since Hopper, DCGM as profiling metrics"),
    Lack(Quantity.USED, "memory in use", "dcgm-exporter has it as DCGM_FI_DEV_FB_USED"),
    Lack(Quantity.TOTAL, "size of the memory", "dcgm-exporter has it with DCGM_FI_DEV_FB_FREE"),
    Lack(Quantity.POWER, "power", "dcgm-exporter has it as DCGM_FI_DEV_POWER_USAGE"),
    Lack(Quantity.TEMPERATURE, "temperature", "dcgm-exporter has it as DCGM_FI_DEV_GPU_TEMP"),
)  # fmt: skip
NOBODY = (
    "No exporter of GPUs is scraped: this server has no metrics of gputui export, dcgm-exporter or nvidia_gpu_exporter."
    " docs/export.md has three commands for it."
)


def found_words(fleet: Fleet) -> str:
    """ "gputui export on 12 nodes, dcgm-exporter (before 4.9) on 4 nodes"; "" until the exporters are known."""
    return ", ".join(f"{found.exporter.value} on {found.nodes} node{'s' * (found.nodes != 1)}" for found in fleet.found)


def missing(fleet: Fleet) -> list[str]:
    """What is not known of a fleet, with which exporter would tell it; nothing before the first answer."""
    if not fleet.scrape_interval_s:  # its answer comes with that about exporters
        return []
    if not fleet.found:
        return [] if fleet.nodes else [NOBODY]
    sentences = []
    ours = sum(found.nodes for found in fleet.found if found.exporter in (Exporter.GPUTUI, Exporter.SSH))
    without = sum(1 for node in fleet.nodes if node.gpus) - ours
    if not ours:
        sentences.append("Jobs, ranks, processes and PyTorch's memory are missing: gputui export tells of them.")
    elif without > 0:
        sentences.append(f"Jobs, ranks and processes are missing on {without} nodes: gputui export does not run there.")
    elif not fleet.has_processes:
        sentences.append("No process is on any GPU, or gputui export may not see them.")
    sentences += [
        f"Nobody tells the {lack.words}: {lack.remedy}." for lack in LACKS if lack.quantity not in fleet.known
    ]
    sentences += [f"Nothing is known of findings of the kind {kind}: {why}" for kind, why in fleet.unanswered]
    return sentences
