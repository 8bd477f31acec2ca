/* The state that the fake NVML, the fake CUDA runtime and the `fakegpu` command share: one memory-mapped file.
 *
 * All integers are little-endian and naturally aligned; `fakegpu` (Python) reads and writes the same layout,
 * so change both together and raise FG_VERSION. */
#pragma once
#include <stdint.h>

#define FG_MAGIC 0x55504746u /* "FGPU" */
#define FG_VERSION 9u
#define FG_MAX_DEV 32
#define FG_MAX_PROC 8192
#define FG_MAX_FAULT 32
#define FG_MAX_CALL 192
#define FG_MAX_ANSWER 16
#define FG_NO_METRIC 0xffffffffu

/* process flags; a process is in the compute list unless it is GRAPHICS or MPS and not COMPUTE */
enum { FG_GHOST = 1, FG_GRAPHICS = 2, FG_NO_MEMORY = 4, FG_MPS = 8, FG_COMPUTE = 16, FG_IDLE = 32, FG_NO_PID = 64 }; /* IDLE: never sampled; NO_PID: reported as PID 0 */

typedef struct {
  int32_t pid; /* 0: the slot is free */
  uint32_t flags;
  uint64_t used[FG_MAX_DEV]; /* bytes on each device; 0: not on it */
  uint32_t sm[FG_MAX_DEV];   /* percent */
} fg_proc;

typedef struct {
  char name[96];
  char uuid[80];
  char bus_id[32];
  uint64_t total, reserved, context; /* bytes: capacity, driver's own, and a CUDA context's */
  uint32_t util, mem_util, enc, dec, temperature, fan;  /* percent, °C */
  uint32_t power, power_limit, max_power;               /* mW */
  uint32_t sm_clock, mem_clock, max_sm_clock, max_mem_clock; /* MHz */
  uint32_t pcie_gen, pcie_width, pcie_tx, pcie_rx;      /* , , KB/s, KB/s */
  uint64_t throttle, ecc_uncorrected, energy;           /* bit mask, count, mJ */
  uint32_t pstate, persistence, compute_mode, animate;  /* animate: vary util, power and so on with time */
  int32_t parent;                                       /* a MIG instance's device; -1: a whole device */
  uint32_t mig, gi, ci;                                 /* MIG is on; an instance's GPU and compute instance */
  uint32_t display, mem_temperature;                    /* a display is active; °C, 0: no sensor */
  uint32_t remapped_correctable, remapped_uncorrectable, remap_pending, remap_failed;
  uint32_t retired_single, retired_double;              /* pages */
  uint32_t nvlinks, nvlinks_active;                     /* links there are, those that are up */
  uint64_t nvlink_tx, nvlink_rx;                        /* KiB since the start, besides what an animated device adds */
  uint64_t ecc_corrected;
  int64_t sample_age_us;                                /* how long ago processes were sampled; below 0: in the future */
  uint64_t sampled_at_us;                               /* the only time at which they were sampled; 0: all the time */
  uint32_t gpm, gpm_graphics, gpm_sm, gpm_occupancy;    /* 1: it has GPM; tenths of a percent, FG_NO_METRIC: not this one */
  uint32_t gpm_integer, gpm_tensor, gpm_dram, gpm_fp64, gpm_fp32, gpm_fp16;
  uint32_t gpm_pcie_tx, gpm_pcie_rx, gpm_nvlink_rx, gpm_nvlink_tx; /* MiB/s */
  uint32_t recovery_action, xid_count, xid[8];          /* NVML's code; XIDs so far, and the last ones in a ring */
  uint64_t slowed_until_us, slowed_power_ns, slowed_thermal_ns; /* violation counters, until when they count (0: not yet) */
} fg_dev;

typedef struct {
  char function[64]; /* a trailing "*" stands for any ending */
  int32_t device;    /* -1: every device */
  int32_t error;     /* NVML error number to return; 0: none */
  uint32_t delay_us; /* time the call takes */
  uint32_t pad;
} fg_fault;

typedef struct {
  char function[64]; /* and a part of its answer: nvmlDeviceGetMemoryInfo_v2.used */
  int32_t device;    /* -1: every device */
  uint32_t pad;
  uint64_t number;   /* what the function answers, whatever is right */
} fg_answer;

typedef struct {
  char function[64];
  uint64_t count;
} fg_call;

typedef struct {
  uint32_t magic, version, devices, cuda_version; /* whole devices come first, then MIG instances; 13000: CUDA 13.0 */
  char driver[80];
  uint32_t procs, pad;                            /* slots of processes from here on were never used */
  fg_dev dev[FG_MAX_DEV];
  fg_fault fault[FG_MAX_FAULT];
  fg_answer answer[FG_MAX_ANSWER];
  fg_call call[FG_MAX_CALL];
  fg_proc proc[FG_MAX_PROC]; /* last: most of it is a hole in the file */
} fg_state;

fg_state *fg_open(void); /* NULL where $FAKEGPU_STATE names no usable file */

/* Use the state in `path` from now on, whatever $FAKEGPU_STATE says: for a process that runs one test after another.
 * It is mapped over the one before, so that device handles stay what they are. NULL, and no state, where it is not usable. */
fg_state *fg_open_at(const char *path);
