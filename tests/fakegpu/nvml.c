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
typedef struct { uint64_t reference, violation; } violation_time; /* us, ns */
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
/* A library that writes to descriptors 1 and 2 whenever it is called, where $FAKEGPU_CHATTER is set. */
static void chatter(void) {
  const char *words = getenv("FAKEGPU_CHATTER");
  if (words) { dprintf(1, "%s\n", words); dprintf(2, "%s\n", words); }
}

static nvmlReturn_t enter(const char *function, nvmlDevice_t dev) {
  fg_state *s = fg_open();
  count(function);
  chatter();
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

/* The number that the state puts in the place of the right one, if any: a driver that answers with nonsense. */
static uint64_t said(const char *function, const char *part, nvmlDevice_t d, uint64_t right) {
  fg_state *s = fg_open();
  char name[96];
  snprintf(name, sizeof name, "%s%s", function, part);
  for (int i = 0; s && i < FG_MAX_ANSWER; i++)
    if (s->answer[i].function[0] && !strcmp(s->answer[i].function, name) && (s->answer[i].device < 0 || s->dev + s->answer[i].device == d))
      return s->answer[i].number;
  return right;
}
#define SAY(number) said(__func__, "", d, number)
#define SAY_PART(part, number) said(__func__, part, d, number)

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
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *n) { ENTER(NULL); *n = said(__func__, "", NULL, S->devices); return OK; }
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
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t d, unsigned *v) { ENTER(d); *v = SAY(d - S->dev); return OK; }
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned *v) { ENTER(d); *v = SAY(d - S->dev); return OK; }
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
  m->total = SAY_PART(".total", d->total); m->used = SAY_PART(".used", u > d->total ? d->total : u);
  m->free = SAY_PART(".free", d->total - (u > d->total ? d->total : u));
  return OK;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, memory_info_v2 *m) {
  ENTER(d);
  if (m->version != 0x02000028) return MISMATCH;
  uint64_t u = used(d);
  if (u > d->total - d->reserved) u = d->total - d->reserved;
  m->total = SAY_PART(".total", d->total); m->reserved = SAY_PART(".reserved", d->reserved);
  m->used = SAY_PART(".used", u); m->free = SAY_PART(".free", d->total - d->reserved - u);
  return OK;
}
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t d, memory_info *m) {
  ENTER(d); m->total = SAY_PART(".total", 131072ull << 20); m->used = SAY_PART(".used", 1ull << 20); m->free = m->total - m->used; return OK;
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, utilization *u) {
  ENTER(d); if (d->mig || d->parent >= 0) return NOT_SUPPORTED;
  u->gpu = SAY_PART(".gpu", live(d, d->util, .3, 100)); u->memory = SAY_PART(".memory", live(d, d->mem_util, .3, 100)); return OK;
}
nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t d, unsigned *v, unsigned *us) { ENTER_WHOLE(d); *v = SAY(d->enc); *us = 167000; return OK; }
nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t d, unsigned *v, unsigned *us) { ENTER_WHOLE(d); *v = SAY(d->dec); *us = 167000; return OK; }
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, int sensor, unsigned *v) { ENTER_WHOLE(d); if (sensor) return INVALID; *v = SAY(live(d, d->temperature, .1, 95)); return OK; }
nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t d, temperature_info *t) {
  ENTER_WHOLE(d); if (t->version != 0x100000C) return MISMATCH; t->temperature = live(d, d->temperature, .1, 95); return OK;
}
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t d, int kind, unsigned *v) { ENTER_WHOLE(d); *v = SAY(kind == 0 ? 92 : kind == 1 ? 89 : 87); return OK; }
nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); if (!d->fan) return NOT_SUPPORTED; *v = SAY(live(d, d->fan, .1, 100)); return OK; }
nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t d, unsigned fan, unsigned *v) { (void)fan; return nvmlDeviceGetFanSpeed(d, v); }
nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = SAY(d->fan ? 2 : 0); return OK; }
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = SAY(live(d, d->power, .2, d->power_limit)); return OK; }
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = SAY(d->power_limit); return OK; }
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = SAY(d->power_limit); return OK; }
nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = SAY(d->max_power); return OK; }
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t d, uint64_t *v) { ENTER_WHOLE(d); *v = SAY(energy(d)); return OK; }
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, int kind, unsigned *v) { ENTER_WHOLE(d); *v = SAY(kind == 2 ? d->mem_clock : live(d, d->sm_clock, .05, d->max_sm_clock)); return OK; }
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t d, int kind, unsigned *v) { ENTER_WHOLE(d); *v = SAY(kind == 2 ? d->max_mem_clock : d->max_sm_clock); return OK; }
nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = SAY(d->pcie_gen); return OK; }
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = SAY(d->pcie_width); return OK; }
nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = SAY(d->pcie_gen); return OK; }
nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t d, unsigned *v) { ENTER_WHOLE(d); *v = SAY(d->pcie_width); return OK; }
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t d, int counter, unsigned *v) { ENTER_WHOLE(d); *v = SAY(live(d, counter ? d->pcie_rx : d->pcie_tx, .5, ~0u)); return OK; }
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t d, int *v) { ENTER_WHOLE(d); *v = SAY(d->pstate); return OK; }
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t d, int *v) { ENTER(d); *v = SAY(d->persistence); return OK; }
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t d, int *v) { ENTER(d); *v = SAY(d->compute_mode); return OK; }
nvmlReturn_t nvmlDeviceGetDriverModel(nvmlDevice_t d, int *v, int *pending) { (void)v; (void)pending; ENTER(d); return NOT_SUPPORTED; }
nvmlReturn_t nvmlDeviceGetDriverModel_v2(nvmlDevice_t d, int *v, int *pending) { (void)v; (void)pending; ENTER(d); return NOT_SUPPORTED; }
nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t d, int *v) { ENTER(d); *v = SAY(d->display); return OK; }
nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t d, int *v) { ENTER(d); *v = SAY(d->display); return OK; }
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int *major, int *minor) { ENTER(d); *major = SAY(9); *minor = 0; return OK; }
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t d, unsigned *v) { ENTER(d); *v = SAY(9); return OK; }
nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t d, unsigned *v) { ENTER(d); *v = SAY(16896); return OK; }
nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t d, unsigned *v) { ENTER(d); *v = SAY(5120); return OK; }
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned *v, unsigned *pending) { ENTER(d); *v = SAY(d->mig); *pending = d->mig; return OK; }
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned *v) { ENTER(d); *v = SAY(d->mig ? 7 : 0); return OK; }
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t d, unsigned *v) { ENTER(d); *v = SAY(d->parent >= 0); return OK; }
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned wanted, nvmlDevice_t *out) {
  ENTER(d);
  for (int k = 0; k < FG_MAX_DEV; k++)
    if (S->dev[k].total && S->dev[k].parent == d - S->dev && wanted-- == 0) { *out = &S->dev[k]; return OK; }
  return NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t d, nvmlDevice_t *out) { ENTER(d); if (d->parent < 0) return INVALID; *out = &S->dev[d->parent]; return OK; }
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t d, unsigned *v) { ENTER(d); if (d->parent < 0) return NOT_SUPPORTED; *v = SAY(d->gi); return OK; }
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t d, unsigned *v) { ENTER(d); if (d->parent < 0) return NOT_SUPPORTED; *v = SAY(d->ci); return OK; }
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t d, uint64_t *v) { ENTER_WHOLE(d); *v = SAY(d->throttle); return OK; }
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t d, uint64_t *v) { ENTER_WHOLE(d); *v = SAY(d->throttle); return OK; }
nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t d, int policy, violation_time *v) {
  ENTER_WHOLE(d); if (policy > 1) return NOT_SUPPORTED;
  v->reference = d->slowed_until_us ? d->slowed_until_us : d->animate ? (uint64_t)(now() * 1e6) : 0;
  v->violation = SAY(policy ? d->slowed_thermal_ns : d->slowed_power_ns); return OK;
}
nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t d, uint64_t *v) { ENTER(d); *v = SAY(0x1ff); return OK; }
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t d, int *cur, int *pending) { ENTER_WHOLE(d); *cur = *pending = 1; return OK; }
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, int type, int counter, uint64_t *v) { (void)counter; ENTER_WHOLE(d); *v = SAY(type ? d->ecc_uncorrected : d->ecc_corrected); return OK; }
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned link, int *v) {
  ENTER_WHOLE(d); if (link >= d->nvlinks) return d->nvlinks ? INVALID : NOT_SUPPORTED; *v = link < d->nvlinks_active; return OK;
}
/* KiB that went through all links: an animated device's links carry 50 GB/s out and 40 GB/s in. */
static uint64_t nvlink(nvmlDevice_t d, uint64_t base, double kib_per_s) { return base + (d->animate ? (uint64_t)(fmod(now(), 1e6) * kib_per_s) : 0); }
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t d, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failed) {
  ENTER_WHOLE(d);
  *correctable = SAY_PART(".correctable", d->remapped_correctable); *uncorrectable = d->remapped_uncorrectable;
  *pending = SAY_PART(".pending", d->remap_pending); *failed = d->remap_failed; return OK;
}
nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t d, int cause, unsigned *n, uint64_t *pages) {
  ENTER_WHOLE(d);
  unsigned there = SAY(cause ? d->retired_double : d->retired_single), room = *n;
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
      case 230: f[i].value.u = d->recovery_action; break;
      case 185: case 186: f[i].value.u = live(d, d->power, .2, d->power_limit); break;
      default: f[i].ret = NOT_SUPPORTED;
    }
    if ((f[i].field == 138 || f[i].field == 139) && !d->nvlinks) f[i].ret = NOT_SUPPORTED;
    char part[8];
    snprintf(part, sizeof part, ".%u", f[i].field);
    f[i].value.ull = SAY_PART(part, f[i].type == 1 ? f[i].value.u : f[i].value.ull);
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
      unsigned pid = p->flags & FG_NO_PID ? 0 : p->pid;
      uint64_t memory = p->flags & FG_NO_MEMORY ? ~0ull : said("nvmlDeviceGetRunningProcesses", ".used", d, p->used[k]);
      if (out && found < room) out[found] = (proc_info){pid, memory, whole ? ~0u : at->gi, whole ? ~0u : at->ci};
      found++;
    }
  }
  *n = said("nvmlDeviceGetRunningProcesses", "", d, found);
  return *n > room ? INSUFFICIENT_SIZE : OK;
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
  for (unsigned i = 0; i < S->procs; i++) {
    fg_proc *p = &S->proc[i];
    uint64_t time = (uint64_t)(now() * 1e6) - d->sample_age_us;
    if (d->sampled_at_us) time = d->sampled_at_us; /* and never again */
    if (!alive(p) || !p->used[index] || p->flags & FG_IDLE || time <= since) continue;
    if (out && found < room) out[found] = (proc_sample){p->flags & FG_NO_PID ? 0 : p->pid, time, live(d, p->sm[index], .3, 100), live(d, p->sm[index] / 2, .3, 100), 0, 0};
    found++;
  }
  *n = found;
  return !found ? NOT_FOUND : !out || found > room ? INSUFFICIENT_SIZE : OK;
}
/* The first version of the lists, in drivers before 450; PyTorch's out-of-memory message asks for it. */
typedef struct { unsigned pid; uint64_t memory; } proc_info_v1;
static nvmlReturn_t processes_v1(nvmlDevice_t d, unsigned *n, proc_info_v1 *out, unsigned kind) {
  proc_info found[FG_MAX_PROC]; unsigned k = FG_MAX_PROC, room = *n;
  processes(d, &k, found, kind);
  for (unsigned i = 0; out && i < k && i < room; i++) out[i] = (proc_info_v1){found[i].pid, found[i].memory};
  *n = k;
  return k > room ? INSUFFICIENT_SIZE : OK;
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t d, unsigned *n, proc_info_v1 *out) { ENTER(d); return processes_v1(d, n, out, FG_COMPUTE); }
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t d, unsigned *n, proc_info_v1 *out) { ENTER(d); return processes_v1(d, n, out, FG_GRAPHICS); }
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t d, unsigned *n, proc_info_v1 *out) { ENTER(d); return processes_v1(d, n, out, FG_MPS); }
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t d, unsigned link, int *v) { ENTER(d); (void)link; (void)v; return NOT_SUPPORTED; }
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, unsigned link, pci_info *v) { ENTER(d); (void)link; (void)v; return NOT_SUPPORTED; }

/* GPM: what a device's counters say between two samples; here, the mean of what the state held at both. */
typedef struct { double at; nvmlDevice_t device; uint32_t value[14]; } gpm_sample;
typedef struct { unsigned id, ret; double value; const char *names[3]; } gpm_metric;
typedef struct { unsigned version, n; gpm_sample *first, *second; gpm_metric metric[]; } gpm_metrics;
typedef struct { unsigned version, supported; } gpm_support;
static const struct { unsigned id; size_t field; } GPM[] = {
  {1, offsetof(fg_dev, gpm_graphics)}, {2, offsetof(fg_dev, gpm_sm)}, {3, offsetof(fg_dev, gpm_occupancy)},
  {4, offsetof(fg_dev, gpm_integer)}, {5, offsetof(fg_dev, gpm_tensor)}, {10, offsetof(fg_dev, gpm_dram)},
  {11, offsetof(fg_dev, gpm_fp64)}, {12, offsetof(fg_dev, gpm_fp32)}, {13, offsetof(fg_dev, gpm_fp16)},
  {20, offsetof(fg_dev, gpm_pcie_tx)}, {21, offsetof(fg_dev, gpm_pcie_rx)},
  {60, offsetof(fg_dev, gpm_nvlink_rx)}, {61, offsetof(fg_dev, gpm_nvlink_tx)},
};
enum { GPM_METRICS = sizeof GPM / sizeof *GPM };

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t d, gpm_support *s) {
  ENTER(d); if (s->version != 1) return MISMATCH; s->supported = SAY(d->gpm); return OK;
}
nvmlReturn_t nvmlGpmSampleAlloc(gpm_sample **s) { ENTER(NULL); *s = calloc(1, sizeof **s); return OK; }
nvmlReturn_t nvmlGpmSampleFree(gpm_sample *s) { ENTER(NULL); free(s); return OK; }
static nvmlReturn_t sample(nvmlDevice_t d, gpm_sample *s) {
  if (!d->gpm) return NOT_SUPPORTED;
  s->at = now(); s->device = d;
  for (int i = 0; i < GPM_METRICS; i++) {
    uint32_t value = *(uint32_t *)((char *)d + GPM[i].field);
    s->value[i] = value == FG_NO_METRIC ? value : live(d, value, .3, GPM[i].id < 20 ? 1000 : ~0u);
  }
  return OK;
}
nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t d, gpm_sample *s) { ENTER(d); return d->parent >= 0 ? INVALID : sample(d, s); }
nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t d, unsigned gi, gpm_sample *s) {
  ENTER(d);
  for (int i = 0; i < FG_MAX_DEV; i++)
    if (S->dev[i].total && S->dev[i].parent == d - S->dev && S->dev[i].gi == gi) return sample(&S->dev[i], s);
  return INVALID;
}
nvmlReturn_t nvmlGpmMetricsGet(gpm_metrics *g) {
  ENTER(NULL);
  if (g->version != 1) return MISMATCH;
  if (!g->n || !g->first || !g->second || g->first->device != g->second->device || g->second->at <= g->first->at) return INVALID;
  nvmlDevice_t d = g->second->device;
  for (unsigned k = 0; k < g->n; k++) {
    gpm_metric *m = &g->metric[k];
    m->ret = NOT_SUPPORTED; m->value = 0;
    for (int i = 0; i < GPM_METRICS; i++)
      if (GPM[i].id == m->id && g->second->value[i] != FG_NO_METRIC && g->first->value[i] != FG_NO_METRIC) {
        double mean = (g->first->value[i] + (double)g->second->value[i]) / 2;
        char part[8];
        snprintf(part, sizeof part, ".%u", m->id);
        m->ret = OK; m->value = m->id < 20 ? SAY_PART(part, (uint64_t)mean) / 10.0 : SAY_PART(part, (uint64_t)mean);
      }
    char one[40]; /* a fault of one metric alone: nvmlGpmMetricsGet.5 */
    snprintf(one, sizeof one, "%s.%u", __func__, m->id);
    nvmlReturn_t r = fault(one, d - S->dev);
    if (r) m->ret = r;
  }
  return OK;
}

/* Events: a set remembers how many XIDs of each registered device it has seen. */
enum { TIMEOUT = 10, XID_EVENT = 8 };
typedef struct { uint32_t is_registered[FG_MAX_DEV], seen[FG_MAX_DEV]; } event_set;
typedef struct { nvmlDevice_t device; unsigned long long type, data; unsigned gi, ci; } event_data;

nvmlReturn_t nvmlEventSetCreate(event_set **s) { ENTER(NULL); *s = calloc(1, sizeof **s); return OK; }
nvmlReturn_t nvmlEventSetFree(event_set *s) { ENTER(NULL); free(s); return OK; }
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t d, unsigned long long *types) { ENTER_WHOLE(d); *types = XID_EVENT; return OK; }
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long types, event_set *s) {
  ENTER_WHOLE(d);
  if (types & ~(unsigned long long)XID_EVENT) return NOT_SUPPORTED;
  s->is_registered[d - S->dev] = 1; s->seen[d - S->dev] = d->xid_count;
  return OK;
}
nvmlReturn_t nvmlEventSetWait_v2(event_set *s, event_data *out, unsigned timeout_ms) {
  ENTER(NULL);
  for (double until = now() + timeout_ms / 1e3;; usleep(1000)) {
    for (int i = 0; i < FG_MAX_DEV; i++) {
      fg_dev *d = &S->dev[i];
      if (!s->is_registered[i] || s->seen[i] == d->xid_count) continue;
      if (d->xid_count - s->seen[i] > 8) s->seen[i] = d->xid_count - 8;
      *out = (event_data){d, XID_EVENT, d->xid[s->seen[i]++ % 8], ~0u, ~0u};
      return OK;
    }
    if (now() >= until) return TIMEOUT;
  }
}
