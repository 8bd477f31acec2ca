"""NVIDIA's XIDs: what each means and what to do about it.

Source: NVIDIA, "XID Errors" (docs.nvidia.com/deploy/xid-errors), whose catalogue names cause and immediate action; the
tiers (program's own, informational, reset or reboot) are those of nvidia_gpu_exporter's alert rules.
"""

from __future__ import annotations

from typing import NamedTuple

from gputui.model.weight import Weight


class XidKind(NamedTuple):
    """The meaning of an XID, what to do about it, and how much it matters."""

    meaning: str
    remedy: str
    weight: Weight = Weight.PROBLEM


_PROGRAM = (
    "Restart the program. compute-sanitizer finds the access; if other programs report it on this GPU, too, have the "
    "GPU examined."
)
_RESET = "Stop the GPU's programs and reset it (nvidia-smi --gpu-reset), or reboot."
_REBOOT = "Move its jobs to another machine, and reboot. If it comes back, have the board and its seat examined."
_NOTHING = "Nothing has to be done."
_FIRMWARE = "Stop the GPU's programs and reset it; if that fails, reboot. If it comes back, update the driver."

XIDS = {
    13: XidKind("a kernel did something that is not allowed", _PROGRAM),
    31: XidKind("a program accessed an address that is not its own", _PROGRAM),
    32: XidKind("commands for the GPU were damaged on their way", _RESET),
    38: XidKind("the driver's firmware failed", _FIRMWARE),
    43: XidKind("a program's work on the GPU was stopped", _PROGRAM),
    45: XidKind(
        "a program's work was cleaned up, as after Ctrl-C or another error",
        "Nothing, if a program was ended on purpose; otherwise the XID before it tells why.",
        Weight.ADVICE,
    ),
    46: XidKind("the GPU stopped processing", _RESET),
    48: XidKind("a memory error of two bits, which cannot be corrected", _RESET),
    61: XidKind("the GPU's own controller failed", _RESET),
    62: XidKind("the GPU's own controller stopped", _RESET),
    63: XidKind(
        "a memory row with errors is marked for replacement",
        "Reset the GPU when its programs have ended: the row is replaced then.",
        Weight.ADVICE,
    ),
    64: XidKind("a memory row with errors could not be marked for replacement", _RESET),
    68: XidKind("the video decoder failed", _PROGRAM),
    69: XidKind("a program gave the GPU a command that does not exist", _PROGRAM),
    74: XidKind(
        "an NVLink failed",
        "Reset all GPUs that are linked, together. If it comes back, have board and bridge examined.",
    ),
    79: XidKind("the GPU has fallen off the bus", _REBOOT),
    92: XidKind("many memory errors that could be corrected", _NOTHING, Weight.ADVICE),
    94: XidKind(
        "a memory error that hit one program alone",
        "Restart that program; reset the GPU when the others have ended.",
    ),
    95: XidKind("a memory error that may have hit any program", "Results of all its programs may be wrong. " + _RESET),
    109: XidKind("a program could not be switched away from the GPU in time", _RESET),
    110: XidKind("a security fault", _REBOOT),
    119: XidKind("the GPU's system processor does not answer", _FIRMWARE),
    120: XidKind("the GPU's system processor failed", _FIRMWARE),
    121: XidKind("an error on the link between CPU and GPU was corrected", _NOTHING, Weight.ADVICE),
    123: XidKind("the power management of the GPU failed", _RESET),
    136: XidKind("the link training of NVLink failed", _RESET),
    137: XidKind("a memory access over NVLink failed", _PROGRAM),
    140: XidKind("a memory error that was not recovered from", _RESET),
    143: XidKind("the GPU could not be initialised", _REBOOT),
    145: XidKind("NVLink receives damaged data", _RESET),
    149: XidKind("NVLink failed", _RESET),
    154: XidKind(
        "the driver has changed what it asks for to recover the GPU",
        "The finding about the recovery action says what; nvidia-smi -q shows it, too.",
    ),
}
"""The XIDs by number."""
