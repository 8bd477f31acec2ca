/* A fake libnvidia-ml.so.1: the part of NVML's interface that GPU monitors call, answered from the shared state.
 * Every call is counted, and a fault in the state can make it slow or make it fail. */
#define _GNU_SOURCE
#include "state.h"
#include <math.h>
#include <stddef.h>
#include <signal.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int nvmlReturn_t;
typedef fg_dev *nvmlDevice_t;
enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, MISMATCH = 25 };

typedef struct { uint64_t total, free, used; } memory_info;
typedef struct { unsigned version; uint64_t total, reserved, free, used; } memory_info_v2;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned version; int sensor, temperature; } temperature_info;
typedef struct { unsigned pid; uint64_t memory; unsigned gi, ci; } proc_info;
typedef struct { unsigned pid; uint64_t memory; unsigned gi, ci; uint64_t protected_memory; } proc_detail;
typedef struct { unsigned version, mode, n; proc_detail *out; } proc_detail_list;
typedef struct { unsigned pid; uint64_t time; unsigned sm, mem, enc, dec; } proc_sample;
typedef struct { uint32_t field, scope; int64_t time, latency; int type, ret; union { double d; unsigned u; uint64_t ull; } value; } field_value;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_info;

static int refs;

/* Use another state from now on, as a process does that was just started: nothing is initialised. */
int fg_use(const char *path) { refs = 0; return fg_open_at(path) ? 0 : -1; }

static void count(const char *function) {
  fg_state *s = fg_open();
  for (int i = 0; s && i < FG_MAX_CALL; i++) {
    fg_call *c = &s->call[i];
    if (!c->function[0]) strncpy(c->function, function, sizeof c->function - 1);
    if (!strcmp(c->function, function)) { __atomic_add_fetch(&c->count, 1, __ATOMIC_RELAXED); return; }
  }
}
/* The error that the state's faults ask for; index -1: the call is about no device in particular. */
static nvmlReturn_t fault(const char *function, int index) {
  fg_state *s = fg_open();
  for (int i = 0; i < FG_MAX_FAULT; i++) {
    fg_fault *f = &s->fault[i];
    size_t k = strlen(f->function);
    if (!k || (f->function[k - 1] == '*' ? strncmp(f->function, function, k - 1) : strcmp(f->function, function))) continue;
    if (f->device >= 0 && f->device != index) continue;
    if (f->delay_us) usleep(f->delay_us);
    if (f->error) return f->error;
  }
  return OK;
}
static nvmlReturn_t enter(const char *function, nvmlDevice_t dev) {
  fg_state *s = fg_open();
  count(function);
  if (!s) return DRIVER_NOT_LOADED;
  int index = dev ? (int)(dev - s->dev) : -1;
  nvmlReturn_t r = fault(function, index);
  if (r) return r;
  if (strncmp(function, "nvmlInit", 8) && !refs) return UNINITIALIZED;
  if (dev && (index < 0 || index >= FG_MAX_DEV || !dev->total)) return INVALID;
  return OK;
}
#define ENTER(dev) do { nvmlReturn_t r_ = enter(__func__, dev); if (r_) return r_; } while (0)
/* What is measured for a whole device has no value for a MIG instance. */
#define ENTER_WHOLE(dev) do { ENTER(dev); if ((dev)->parent >= 0) return NOT_SUPPORTED; } while (0)
#define S (fg_open())

static double now(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); return t.tv_sec + t.tv_nsec * 1e-9; }

/* A value that moves around its base where the device is animated: a slow wave and a faster one, its own for each device. */
static uint32_t live(nvmlDevice_t d, uint32_t base, double spread, uint32_t top) {
  if (!d->animate || !base) return base;
  double t = now() + 7.3 * (d - S->dev), v = base * (1 + spread * (0.7 * sin(t / 5) + 0.3 * sin(t * 1.7)));
  return v < 0 ? 0 : v > top ? top : (uint32_t)v;
}

static uint64_t energy(nvmlDevice_t d) { return d->energy + (d->animate ? (uint64_t)(fmod(now(), 1e7) * d->power) : 0); }

static int alive(const fg_proc *p) { return p->pid && ((p->flags & FG_GHOST) || kill(p->pid, 0) == 0 || errno == EPERM); }
static uint64_t used(nvmlDevice_t d) {
  uint64_t sum = 0;
  int index = d - S->dev;
  for (unsigned i = 0; i < S->procs; i++)
    if (alive(&S->proc[i]))
      for (int k = 0; k < FG_MAX_DEV; k++)
        if (k == index || (S->dev[k].total && S->dev[k].parent == index)) sum += S->proc[i].used[k];
  return sum;
}

nvmlReturn_t nvmlInit_v2(void) { ENTER(NULL); __atomic_add_fetch(&refs, 1, __ATOMIC_RELAXED); return OK; }
nvmlReturn_t nvmlInit(void) { return nvmlInit_v2(); }
nvmlReturn_t nvmlInitWithFlags(unsigned flags) { (void)flags; ENTER(NULL); __atomic_add_fetch(&refs, 1, __ATOMIC_RELAXED); return OK; }
nvmlReturn_t nvmlShutdown(void) { ENTER(NULL); __atomic_sub_fetch(&refs, 1, __ATOMIC_RELAXED); return OK; }
const char *nvmlErrorString(nvmlReturn_t r) {
  switch (r) {
    case 0: return "The operation was successful";
    case 1: return "Uninitialized";
    case 3: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 9: return "Driver Not Loaded";
    case 15: return "GPU is lost";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
  }
}
static nvmlReturn_t text(char *out, unsigned size, const char *value) {
  if (strlen(value) + 1 > size) return INSUFFICIENT_SIZE;
  strcpy(out, value);
  return OK;
}
nvmlReturn_t nvmlSystemGetDriverVersion(char *v, unsigned n) { ENTER(NULL); return text(v, n, S->driver); }
nvmlReturn_t nvmlSystemGetNVMLVersion(char *v, unsigned n) { ENTER(NULL); return text(v, n, S->driver); }
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *v) { ENTER(NULL); *v = S->cuda_version; return OK; }
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *v) { return nvmlSystemGetCudaDriverVersion_v2(v); }
nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned n) {
  ENTER(NULL);
  char path[64]; snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
  FILE *f = fopen(path, "r"); if (!f) return NOT_FOUND;
  size_t k = fread(name, 1, n - 1, f); name[k] = 0; fclose(f); return OK;
}
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *n) { ENTER(NULL); *n = S->devices; return OK; }
nvmlReturn_t nvmlDeviceGetCount(unsigned *n) { return nvmlDeviceGetCount_v2(n); }
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned i, nvmlDevice_t *d) {
  ENTER(NULL);
  if (i >= S->devices) return INVALID;
  *d = &S->dev[i];
  return fault(__func__, i);
}
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned i, nvmlDevice_t *d) { return nvmlDeviceGetHandleByIndex_v2(i, d); }
static nvmlReturn_t by_text(const char *wanted, size_t offset, nvmlDevice_t *d) {
  for (unsigned i = 0; i < FG_MAX_DEV; i++)
    if (S->dev[i].total && !strcasecmp((char *)&S->dev[i] + offset, wanted)) { *d = &S->dev[i]; return OK; }
  return NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *u, nvmlDevice_t *d) { ENTER(NULL); return by_text(u, offsetof(fg_dev, uuid), d); }
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *b, nvmlDevice_t *d) {
  ENTER(NULL);
  const char *at = strlen(b) == 12 ? b - 4 : b; /* a short domain: 0000:65:00.0 */
  for (unsigned i = 0; i < S->devices; i++)
    if (!strcasecmp(S->dev[i].bus_id + (at == b ? 0 : 4), b)) { *d = &S->dev[i]; return OK; }
  return NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *b, nvmlDevice_t *d) { return nvmlDeviceGetHandleByPciBusId_v2(b, d); }
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t d, unsigned *v) { ENTER(d); *v = d - S->dev; return OK; }
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned *v) { ENTER(d); *v = d - S->dev; return OK; }
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *v, unsigned n) { ENTER(d); return text(v, n, d->name); }
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *v, unsigned n) { ENTER(d); return text(v, n, d->uuid); }
nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t d, char *v, unsigned n) { ENTER(d); char s[32]; snprintf(s, sizeof s, "16542230%05d", (int)(d - S->dev)); return text(v, n, s); }
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, pci_info *p) {
  ENTER(d);
  memset(p, 0, sizeof *p);
  sscanf(d->bus_id, "%x:%x:%x", &p->domain, &p->bus, &p->device);
  strcpy(p->bus_id, d->bus_id);
  strcpy(p->legacy, d->bus_id + 4);
  p->id = 0x233010de;
  return OK;
}
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t d, pci_info *p) { return nvmlDeviceGetPciInfo_v3(d, p); }
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t d, pci_info *p) { return nvmlDeviceGetPciInfo_v3(d, p); }
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, memory_info *m) {
  ENTER(d);
  uint64_t u = used(d) + d->reserved;
  m->total = d->total; m->used = u > d->total ? d->total : u; m->free = d->total - m->used;
  return OK;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, memory_info_v2 *m) {
  ENTER(d);
  if (m->version != 0x02000028) return MISMATCH;
  uint64_t u = used(d);
  m->total = d->total; m->reserved = d->reserved; m->used = u > d->total - d->reserved ? d->total - d->reserved : u;
  m->free = d->total - d->reserved - m->used;
  return OK;
}
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t d, memory_info *m) {
  ENTER(d); m->total = 131072ull << 20; m->used = 1ull << 20; m->free = m->total - m->used; return OK;
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, utilization *u) {
  ENTER(d); if (d->mig || d->parent >= 0) return NOT_SUPPORTED;
  u->gpu = live(d, d->util, .3, 100); u->memory = live(d, d->mem_util, .3, 100); return OK;
}
nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t d, unsigned *v, unsigned *us) { ENTER_WHOLE(d); *v = d->enc; *us = 167000; return OK; }
nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t d, unsigned *v, unsigned *us) { ENTER_WHOLE(d); *v = d->dec; *us = 167000; return OK; }
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, int sensor, unsigned *v) { ENTER_WHOLE(d); if (sensor) return INVALID; *v = live(d, d->temperature, .1, 95); return OK; }
nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t d, temperature_info *t) {
  ENTER_WHOLE(d); if (t->version != 0x100000C) return MISMATCH; t->temperature = live(d, d->temperature, .1, 95); return OK;
}
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t d, int kind, unsigned *v) { ENTER_WHOLE(d); *v = kind == 0 ? 92 : kind == 1 ? 89 : 87; return OK; }
nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); if (!d->fan) return NOT_SUPPORTED; *v = live(d, d->fan, .1, 100); return OK; }
nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t d, unsigned fan, unsigned *v) { (void)fan; return nvmlDeviceGetFanSpeed(d, v); }
nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = d->fan ? 2 : 0; return OK; }
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = live(d, d->power, .2, d->power_limit); return OK; }
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = d->power_limit; return OK; }
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = d->power_limit; return OK; }
nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = d->max_power; return OK; }
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t d, uint64_t *v) { ENTER_WHOLE(d); *v = energy(d); return OK; }
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, int kind, unsigned *v) { ENTER_WHOLE(d); *v = kind == 2 ? d->mem_clock : live(d, d->sm_clock, .05, d->max_sm_clock); return OK; }
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t d, int kind, unsigned *v) { ENTER_WHOLE(d); *v = kind == 2 ? d->max_mem_clock : d->max_sm_clock; return OK; }
nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = d->pcie_gen; return OK; }
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = d->pcie_width; return OK; }
nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = d->pcie_gen; return OK; }
nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = d->pcie_width; return OK; }
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t d, int counter, unsigned *v) { ENTER_WHOLE(d); *v = live(d, counter ? d->pcie_rx : d->pcie_tx, .5, ~0u); return OK; }
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t d, int *v) { ENTER_WHOLE(d); *v = d->pstate; return OK; }
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t d, int *v) { ENTER(d); *v = d->persistence; return OK; }
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t d, int *v) { ENTER(d); *v = d->compute_mode; return OK; }
nvmlReturn_t nvmlDeviceGetDriverModel(nvmlDevice_t d, int *v, int *pending) { (void)v; (void)pending; ENTER(d); return NOT_SUPPORTED; }
nvmlReturn_t nvmlDeviceGetDriverModel_v2(nvmlDevice_t d, int *v, int *pending) { (void)v; (void)pending; ENTER(d); return NOT_SUPPORTED; }
nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t d, int *v) { ENTER(d); *v = d->display; return OK; }
nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t d, int *v) { ENTER(d); *v = d->display; return OK; }
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int *major, int *minor) { ENTER(d); *major = 9; *minor = 0; return OK; }
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t d, unsigned *v) { ENTER(d); *v = 9; return OK; }
nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t d, unsigned *v) { ENTER(d); *v = 16896; return OK; }
nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t d, unsigned *v) { ENTER(d); *v = 5120; return OK; }
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned *v, unsigned *pending) { ENTER(d); *v = *pending = d->mig; return OK; }
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned *v) { ENTER(d); *v = d->mig ? 7 : 0; return OK; }
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t d, unsigned *v) { ENTER(d); *v = d->parent >= 0; return OK; }
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned wanted, nvmlDevice_t *out) {
  ENTER(d);
  for (int k = 0; k < FG_MAX_DEV; k++)
    if (S->dev[k].total && S->dev[k].parent == d - S->dev && wanted-- == 0) { *out = &S->dev[k]; return OK; }
  return NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t d, nvmlDevice_t *out) { ENTER(d); if (d->parent < 0) return INVALID; *out = &S->dev[d->parent]; return OK; }
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t d, unsigned *v) { ENTER(d); if (d->parent < 0) return NOT_SUPPORTED; *v = d->gi; return OK; }
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t d, unsigned *v) { ENTER(d); if (d->parent < 0) return NOT_SUPPORTED; *v = d->ci; return OK; }
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t d, uint64_t *v) { ENTER_WHOLE(d); *v = d->throttle; return OK; }
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t d, uint64_t *v) { ENTER_WHOLE(d); *v = d->throttle; return OK; }
nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t d, uint64_t *v) { ENTER(d); *v = 0x1ff; return OK; }
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t d, int *cur, int *pending) { ENTER_WHOLE(d); *cur = *pending = 1; return OK; }
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, int type, int counter, uint64_t *v) { (void)counter; ENTER_WHOLE(d); *v = type ? d->ecc_uncorrected : d->ecc_corrected; return OK; }
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned link, int *v) {
  ENTER_WHOLE(d); if (link >= d->nvlinks) return d->nvlinks ? INVALID : NOT_SUPPORTED; *v = link < d->nvlinks_active; return OK;
}
/* KiB that went through all links: an animated device's links carry 50 GB/s out and 40 GB/s in. */
static uint64_t nvlink(nvmlDevice_t d, uint64_t base, double kib_per_s) { return base + (d->animate ? (uint64_t)(fmod(now(), 1e6) * kib_per_s) : 0); }
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t d, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failed) {
  ENTER_WHOLE(d);
  *correctable = d->remapped_correctable; *uncorrectable = d->remapped_uncorrectable;
  *pending = d->remap_pending; *failed = d->remap_failed; return OK;
}
nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t d, int cause, unsigned *n, uint64_t *pages) {
  ENTER_WHOLE(d);
  unsigned there = cause ? d->retired_double : d->retired_single, room = *n;
  for (unsigned i = 0; pages && i < there && i < room; i++) pages[i] = 0x1000ull * (i + 1);
  *n = there;
  return there > room ? INSUFFICIENT_SIZE : OK;
}
nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t d, char *v, unsigned n) { ENTER(d); return text(v, n, "96.00.89.00.01"); }
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int n, field_value *f) {
  ENTER_WHOLE(d);
  for (int i = 0; i < n; i++) {
    f[i].ret = OK; f[i].time = (int64_t)(now() * 1e6); f[i].type = 1; f[i].value.ull = 0;
    switch (f[i].field) {
      case 82: if (d->mem_temperature) f[i].value.u = live(d, d->mem_temperature, .1, 105); else f[i].ret = NOT_SUPPORTED; break;
      case 83: f[i].type = 3; f[i].value.ull = energy(d); break;
      case 91: f[i].value.u = d->nvlinks; break;
      case 138: f[i].type = 3; f[i].value.ull = nvlink(d, d->nvlink_tx, 50e9 / 1024); break;
      case 139: f[i].type = 3; f[i].value.ull = nvlink(d, d->nvlink_rx, 40e9 / 1024); break;
      case 185: case 186: f[i].value.u = live(d, d->power, .2, d->power_limit); break;
      default: f[i].ret = NOT_SUPPORTED;
    }
    if ((f[i].field == 138 || f[i].field == 139) && !d->nvlinks) f[i].ret = NOT_SUPPORTED;
    char one[40]; /* a fault of one field alone: nvmlDeviceGetFieldValues.82 */
    snprintf(one, sizeof one, "%s.%u", __func__, f[i].field);
    nvmlReturn_t r = fault(one, d - S->dev);
    if (r) f[i].ret = r;
  }
  return OK;
}

static int listed(const fg_proc *p, unsigned kind) {
  unsigned other = p->flags & (FG_GRAPHICS | FG_MPS);
  return kind == FG_COMPUTE ? !other || p->flags & FG_COMPUTE : (p->flags & kind) != 0;
}
static nvmlReturn_t processes(nvmlDevice_t d, unsigned *n, proc_info *out, unsigned kind) {
  unsigned found = 0, room = *n;
  int index = d - S->dev;
  for (unsigned i = 0; i < S->procs; i++) {
    fg_proc *p = &S->proc[i];
    if (!alive(p) || !listed(p, kind)) continue;
    for (int k = 0; k < FG_MAX_DEV; k++) { /* a whole device lists the processes of its instances too */
      fg_dev *at = &S->dev[k];
      if (!p->used[k] || (k != index && !(at->total && at->parent == index))) continue;
      int whole = at->parent < 0;
      if (out && found < room) out[found] = (proc_info){p->pid, p->flags & FG_NO_MEMORY ? ~0ull : p->used[k], whole ? ~0u : at->gi, whole ? ~0u : at->ci};
      found++;
    }
  }
  *n = found;
  return found > room ? INSUFFICIENT_SIZE : OK;
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *n, proc_info *out) { ENTER(d); return processes(d, n, out, FG_COMPUTE); }
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t d, unsigned *n, proc_info *out) { ENTER(d); return processes(d, n, out, FG_GRAPHICS); }
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *n, proc_info *out) { ENTER(d); return processes(d, n, out, FG_MPS); }
/* As older drivers have them. */
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t d, unsigned *n, proc_info *out) { ENTER(d); return processes(d, n, out, FG_COMPUTE); }
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t d, unsigned *n, proc_info *out) { ENTER(d); return processes(d, n, out, FG_GRAPHICS); }
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t d, unsigned *n, proc_info *out) { ENTER(d); return processes(d, n, out, FG_MPS); }
nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t d, proc_detail_list *list) {
  ENTER(d);
  proc_info found[FG_MAX_PROC]; unsigned n = FG_MAX_PROC;
  processes(d, &n, found, list->mode == 0 ? FG_COMPUTE : list->mode == 1 ? FG_GRAPHICS : FG_MPS);
  if (!list->out || list->n < n) { list->n = n; return n ? INSUFFICIENT_SIZE : OK; }
  for (unsigned i = 0; i < n; i++) list->out[i] = (proc_detail){found[i].pid, found[i].memory, ~0u, ~0u, ~0ull};
  list->n = n;
  return OK;
}
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d, proc_sample *out, unsigned *n, uint64_t since) {
  ENTER_WHOLE(d);
  if (d->mig) return NOT_SUPPORTED;
  unsigned found = 0, room = *n;
  int index = d - S->dev;
  (void)since;
  for (unsigned i = 0; i < S->procs; i++) {
    fg_proc *p = &S->proc[i];
    if (!alive(p) || !p->used[index] || p->flags & FG_IDLE) continue;
    if (out && found < room) out[found] = (proc_sample){p->pid, (uint64_t)(now() * 1e6), live(d, p->sm[index], .3, 100), live(d, p->sm[index] / 2, .3, 100), 0, 0};
    found++;
  }
  *n = found;
  return !found ? NOT_FOUND : !out || found > room ? INSUFFICIENT_SIZE : OK;
}
/* The first version of the process list, which PyTorch's out-of-memory message asks for. */
typedef struct { unsigned pid; uint64_t memory; } proc_info_v1;
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t d, unsigned *n, proc_info_v1 *out) {
  ENTER(d);
  proc_info found[FG_MAX_PROC]; unsigned k = FG_MAX_PROC, room = *n;
  processes(d, &k, found, FG_COMPUTE);
  for (unsigned i = 0; out && i < k && i < room; i++) out[i] = (proc_info_v1){found[i].pid, found[i].memory};
  *n = k;
  return k > room ? INSUFFICIENT_SIZE : OK;
}
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t d, unsigned link, int *v) { ENTER(d); (void)link; (void)v; return NOT_SUPPORTED; }
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, unsigned link, pci_info *v) { ENTER(d); (void)link; (void)v; return NOT_SUPPORTED; }
