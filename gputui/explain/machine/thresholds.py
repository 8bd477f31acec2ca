"""The numbers at which a rule about the machine makes a finding, each with its reason or with who else uses it."""

from __future__ import annotations

from gputui.units import GIB, MIB

BUSY_PERCENT = 95
"""The driver's utilisation of a device whose kernels run all the time."""
RESTING_PERCENT = 5
"""Use of tensor cores, of each floating-point pipe and of memory bandwidth: KempnerPulse's bound for an idle GPU."""
FEW_SMS_PERCENT = 25
"""Active SMs: a kernel that waits in a collective occupies some (KempnerPulse's bound of "busy, but few SMs")."""
LOW_POWER_SHARE = 0.2
"""The share of the power limit that a GPU takes which copies (ProphetStor); a GPU that only waits takes less."""
QUIET_LINK_BYTES_PER_S = 10e6
"""The traffic of PCIe and NVLink, each way: a training that works moves more."""
SIGNALS_AT_LEAST = 2
"""Of three signals: one alone may be a failed reading, or a program that happens to need little of one thing."""

USED_PERCENT = 10
"""Utilisation, as a mean over a minute, from which on a device counts as used (gpu-usage-audit)."""
HELD_BYTES = 100 * MIB
"""Memory that counts as held (gpu-usage-audit)."""
HELD_FOR_S = 3600.0
"""jobstats warns of an idle job after an hour."""

ORPHAN_AFTER_S = 60.0
"""A launcher that ends normally takes its workers with it within seconds."""
UNACCOUNTED_BYTES = GIB
"""What the driver, a display or MIG keep is less. Meta's GCM takes 15 MiB, but only between two jobs."""
UNACCOUNTED_AFTER_S = 60.0
"""nvidia-resiliency-ext gives a killed program 50 s to give its memory back."""

UNDER_LOAD_PERCENT = 50
"""Utilisation from which on a PCIe link should have its full speed: it is slower on purpose while a GPU rests."""
UNDER_LOAD_AFTER_S = 60.0

SLOWED_PERCENT = 10
"""The percentage of a minute in which heat or the power supply lowers the clocks."""
SLOWED_AFTER_S = 240.0
"""Five minutes with the minute that the rule looks back, as in nvidia_gpu_exporter's alerts."""

NEARLY_FULL_SHARE = 0.95
"""The used share of memory, a limit, swap or /dev/shm at which the kernel always reclaims, and requests may fail."""
FILLING_SHARE = 0.7
"""With a smaller used share, growth is that of a program that starts."""
FULL_WITHIN_S = 1800.0
"""Time enough to do something about it."""
GROWTH_OVER_S = 600.0
"""How long growth is watched before it is believed."""

SILENT_S = 10.0
"""A call into a driver that works takes milliseconds."""
STARTS_WITHIN_S = 30.0
"""Without persistence mode, the first call initialises each board, which takes a second or two each."""

STARVED_PERCENT = 70
"""The mean utilisation below which a GPU in use waits for its input, if workers or copies show for what."""
INEFFECTIVE_PERCENT = 50
"""The same if only the main thread shows it: a thread that waits for the GPU takes a whole core as well (NVIDIA's DCGM
manual calls less than 50 % ineffective, gpmtop launch- or input-bound)."""
WARM_UP_S = 180.0
"""A program loads and compiles in its first minutes."""
ALWAYS_SHARE = 0.8
"""The share of a minute's snapshots in which a thread runs that hardly ever waits."""
MANY_WORKERS_SHARE = 0.7
"""The share of a loader's workers, in the mean of a minute, from which on the workers are the limit."""
FREE_CORES_SHARE = 0.85
"""The used share of the host's processor above which more workers only take cores from each other."""
SHM_FULL_SHARE = 0.9
"""The used share of /dev/shm, through which workers hand batches over."""
COPYING_BYTES_PER_S = GIB
"""Traffic over PCIe to the device, with few SMs active (KempnerPulse: I/O-bound from 1 GB/s below 30 %)."""
COPYING_SM_PERCENT = 30
