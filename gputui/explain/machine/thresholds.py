"""The numbers from which a rule about the machine makes a finding, each with its reason or with who else uses it."""

from __future__ import annotations

from gputui.units import GIB, MIB

BUSY_PERCENT = 95
"""The driver's utilisation of a device whose kernels run all the time."""
RESTING_PERCENT = 5
"""Of tensor cores, of each floating-point pipe and of memory bandwidth: KempnerPulse's bound for an idle GPU."""
FEW_SMS_PERCENT = 25
"""A kernel that waits in a collective occupies some SMs: KempnerPulse's bound of "busy, but few SMs"."""
LOW_POWER_SHARE = 0.2
"""Of the limit: a GPU that copies takes about that (ProphetStor), one that only waits less."""
QUIET_LINK_BYTES_PER_S = 10e6
"""Of PCIe and NVLink, each way: a training that works moves more."""
SIGNALS_AT_LEAST = 2
"""Of three: one alone is a reading that failed, or a program that happens to need little of one thing."""

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
"""Of the time of a minute in which heat or the power supply lowers the clocks. The power limit does so on purpose."""
SLOWED_AFTER_S = 240.0
"""With the minute before it, five minutes, as in nvidia_gpu_exporter's alerts."""

NEARLY_FULL_SHARE = 0.95
"""Of memory, a limit, swap or /dev/shm: the kernel reclaims all the time, and the next request may fail."""
FILLING_SHARE = 0.7
"""With less in use, growth is a program that starts."""
FULL_WITHIN_S = 1800.0
"""Time enough to do something about it."""
GROWTH_OVER_S = 600.0
"""How long growth is watched before it is believed."""

SILENT_S = 10.0
"""A call into a driver that works takes milliseconds."""
STARTS_WITHIN_S = 30.0
"""Without persistence mode, the first call initialises each board, a second or two each."""

STARVED_PERCENT = 70
"""Mean utilisation below which a GPU that is in use waits for something, where its workers or copies show for what."""
INEFFECTIVE_PERCENT = 50
"""The same where only the main process does: a process that waits for the GPU takes a whole core as well (NVIDIA's
DCGM manual calls less than 50 % ineffective, gpmtop launch- or input-bound)."""
WARM_UP_S = 180.0
"""A program loads and compiles in its first minutes."""
ALWAYS_SHARE = 0.8
"""Of the looks of a minute: a thread that hardly ever waits."""
MANY_WORKERS_SHARE = 0.7
"""Of a loader's workers, in the mean of a minute: they are what limits."""
FREE_CORES_SHARE = 0.85
"""Of the host's processor: above, more workers only take cores from each other."""
SHM_FULL_SHARE = 0.9
"""Of /dev/shm, through which workers hand batches over."""
COPYING_BYTES_PER_S = GIB
"""Over PCIe to the device, with few SMs active (KempnerPulse: I/O-bound from 1 GB/s below 30 %)."""
COPYING_SM_PERCENT = 30
