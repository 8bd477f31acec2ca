/* A fake CUDA for a machine without a GPU: the runtime entry points that PyTorch's libraries import, the driver ones it
 * looks up, and cuBLAS calls that do nothing. Memory is real bookkeeping over address space with nothing behind it:
 * allocations have addresses, sizes and limits, and NVML's fake sees them; kernels and copies compute nothing, and what
 * is read back from a device is zeros. So PyTorch's own allocator, autograd and optimizers run as they are.
 *
 * Preload it (LD_PRELOAD), with its folder on LD_LIBRARY_PATH for those who open libcuda.so.1 by name.
 *   FAKEGPU_MALLOC_US     time that cudaMalloc, cudaFree and cuMemCreate take (0)
 * What takes time on the device is in streams.c. */
#define _GNU_SOURCE
#include "cuda.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRAIN (2ull << 20)
#define ARENA (2ull << 40)
#define UP(n) (((n) + GRAIN - 1) / GRAIN * GRAIN)
#define MAX_RANGE 200000

typedef struct { uint64_t start, size, physical; } range;
static struct { uint64_t base; range *r; int n; } arena[FG_MAX_DEV];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int current;
static __thread cudaError_t last;
static fg_proc *me;
static int dummy;

cudaError_t fg_fail(cudaError_t e) { if (e) last = e; return e; }
int fg_current(void) { return current; }
static void pause_us(const char *name) { const char *v = getenv(name); if (v && atoi(v)) usleep(atoi(v)); }

/* ---- which devices this process sees: CUDA_VISIBLE_DEVICES holds indices and (shortened) UUIDs ---- */
static int visible[FG_MAX_DEV], visible_count;
static pthread_once_t visible_once = PTHREAD_ONCE_INIT;
static int named(const char *name) {
  fg_state *s = fg_open();
  if (*name >= '0' && *name <= '9') return atoi(name) < (int)s->devices ? atoi(name) : -1;
  for (int i = 0; i < FG_MAX_DEV; i++) if (*name && !strncmp(s->dev[i].uuid, name, strlen(name))) return i;
  return -1;
}
static void find_visible(void) {
  const char *v = getenv("CUDA_VISIBLE_DEVICES");
  char *list = v ? strdup(v) : NULL, *rest = NULL;
  if (!list) for (; visible_count < (int)fg_open()->devices; visible_count++) visible[visible_count] = visible_count;
  for (char *name = list ? strtok_r(list, ",", &rest) : NULL; name; name = strtok_r(NULL, ",", &rest)) {
    int d = named(name);
    if (d < 0) break; /* CUDA, too, stops at the first that is none */
    visible[visible_count++] = d;
  }
  free(list);
}
static int count(void) { pthread_once(&visible_once, find_visible); return visible_count; }
static int real(int d) { return d < count() ? visible[d] : d; }
static fg_dev *device(int d) { return &fg_open()->dev[real(d)]; }

/* ---- the process's entry in the shared state, and the device's capacity ---- */
static int alive(const fg_proc *p) { return p->pid && ((p->flags & FG_GHOST) || kill(p->pid, 0) == 0 || errno == EPERM); }
static void join_state(void) {
  if (me) return;
  fg_state *s = fg_open();
  for (int i = 0; i < FG_MAX_PROC; i++) {
    fg_proc *p = &s->proc[i];
    int32_t old = p->pid;
    if (old && alive(p)) continue;
    if (__atomic_compare_exchange_n(&p->pid, &old, getpid(), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
      memset(p->used, 0, sizeof p->used); memset(p->sm, 0, sizeof p->sm); p->flags = 0; me = p;
      uint32_t procs = s->procs;
      while (procs <= (uint32_t)i && !__atomic_compare_exchange_n(&s->procs, &procs, i + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) continue;
      return;
    }
  }
  abort();
}
__attribute__((destructor)) static void leave_state(void) { if (me && me->pid == getpid()) me->pid = 0; }
static uint64_t device_free(int d) {
  fg_state *s = fg_open();
  uint64_t used = device(d)->reserved;
  for (unsigned i = 0; i < s->procs; i++) if (alive(&s->proc[i])) used += s->proc[i].used[real(d)];
  return used > device(d)->total ? 0 : device(d)->total - used;
}
static void context(int d) { /* the primary context of a device costs memory once */
  join_state();
  if (!arena[d].base) {
    arena[d].base = (uint64_t)mmap(NULL, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    arena[d].base = UP(arena[d].base);
    arena[d].r = calloc(MAX_RANGE, sizeof(range));
    me->used[real(d)] += device(d)->context;
    me->sm[real(d)] = 35;
  }
}
static int take(int d, uint64_t bytes) {
  if (bytes > device_free(d)) return 0;
  __atomic_add_fetch(&me->used[real(d)], bytes, __ATOMIC_RELAXED);
  return 1;
}
static void give(int d, uint64_t bytes) { __atomic_sub_fetch(&me->used[real(d)], bytes, __ATOMIC_RELAXED); }

/* ---- address space: first fit in a sorted list of ranges ---- */
static uint64_t reserve(int d, uint64_t size, uint64_t physical) {
  uint64_t at = arena[d].base;
  int i = 0;
  for (; i < arena[d].n; i++) {
    if (arena[d].r[i].start - at >= size) break;
    at = arena[d].r[i].start + arena[d].r[i].size;
  }
  if (arena[d].n == MAX_RANGE || at + size > arena[d].base + ARENA - GRAIN) return 0;
  memmove(&arena[d].r[i + 1], &arena[d].r[i], (arena[d].n - i) * sizeof(range));
  arena[d].r[i] = (range){at, size, physical};
  arena[d].n++;
  return at;
}
static int device_of(uint64_t p) {
  for (int d = 0; d < FG_MAX_DEV; d++) if (arena[d].base && p >= arena[d].base && p < arena[d].base + ARENA) return d;
  return -1;
}
static int release(uint64_t p) {
  int d = device_of(p);
  if (d < 0) return 0;
  int lo = 0, hi = arena[d].n - 1;
  while (lo <= hi) {
    int mid = (lo + hi) / 2;
    if (arena[d].r[mid].start == p) {
      give(d, arena[d].r[mid].physical);
      memmove(&arena[d].r[mid], &arena[d].r[mid + 1], (arena[d].n - mid - 1) * sizeof(range));
      arena[d].n--;
      return 1;
    }
    if (arena[d].r[mid].start < p) lo = mid + 1; else hi = mid - 1;
  }
  return 0;
}

/* ---- devices ---- */
cudaError_t cudaGetDeviceCount(int *n) { *n = fg_open() ? count() : 0; return fg_fail(*n ? cudaSuccess : cudaErrorNoDevice); }
cudaError_t cudaGetDevice(int *d) { *d = current; return cudaSuccess; }
cudaError_t cudaSetDevice(int d) { if (d < 0 || d >= count()) return fg_fail(cudaErrorInvalidDevice); current = d; pthread_mutex_lock(&lock); context(d); pthread_mutex_unlock(&lock); return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int *v) { *v = fg_open() ? fg_open()->cuda_version : 0; return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *v) { *v = CUDART_VERSION; return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int d) {
  fg_dev *dev = device(d);
  memset(p, 0, sizeof *p);
  const char *hex = strchr(dev->uuid, '-');
  for (int i = 0; hex && i < 16; i++, hex += 2) { hex += *hex == '-'; sscanf(hex, "%2hhx", (unsigned char *)&p->uuid.bytes[i]); }
  snprintf(p->name, sizeof p->name, "%s", dev->name);
  p->totalGlobalMem = dev->total - dev->reserved;
  p->major = 9; p->multiProcessorCount = 132; p->warpSize = 32; p->l2CacheSize = 50 << 20;
  p->maxThreadsPerBlock = 1024; p->maxThreadsPerMultiProcessor = 2048; p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->sharedMemPerBlock = 48 << 10; p->sharedMemPerBlockOptin = 227 << 10; p->sharedMemPerMultiprocessor = 228 << 10;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024; p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 0x7fffffff; p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->maxBlocksPerMultiProcessor = 32; p->memoryBusWidth = 5120; p->unifiedAddressing = 1; p->textureAlignment = 512;
  p->pciBusID = 0x0f + 0x10 * real(d); p->concurrentKernels = 1; p->asyncEngineCount = 3; p->clusterLaunch = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *p, int d) { return cudaGetDeviceProperties(p, d); }
static int attribute(int a) {
  switch (a) {
    case 1: return 1024; case 2: case 3: return 1024; case 4: return 64; case 5: return 0x7fffffff; case 6: case 7: return 65535;
    case 8: return 48 << 10; case 10: return 32; case 12: return 65536; case 13: return 1980000; case 16: return 132;
    case 39: return 2048; case 75: return 9; case 76: return 0; case 81: return 228 << 10; case 97: return 227 << 10; case 106: return 32;
    case 128: case 133: return 0; /* fabric handles, multicast */
    default: return 1;
  }
}
cudaError_t cudaDeviceGetAttribute(int *v, enum cudaDeviceAttr a, int d) { *v = attribute(a); return cudaSuccess; }
cudaError_t cudaDeviceGetPCIBusId(char *b, int n, int d) { snprintf(b, n, "%s", device(d)->bus_id + 4); return cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int *lo, int *hi) { *lo = 0; *hi = -5; return cudaSuccess; }
cudaError_t cudaDeviceCanAccessPeer(int *v, int a, int b) { *v = 1; return cudaSuccess; }
cudaError_t cudaDeviceEnablePeerAccess(int d, unsigned f) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize(void) { return fg_device_waits(current); }
cudaError_t cudaDeviceReset(void) { return fg_fail(cudaErrorNotSupported); }
const char *cudaGetErrorName(cudaError_t e) { return e == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : e ? "cudaErrorUnknown" : "cudaSuccess"; }
const char *cudaGetErrorString(cudaError_t e) {
  switch (e) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    default: return "unknown error";
  }
}
cudaError_t cudaGetLastError(void) { cudaError_t e = last; last = cudaSuccess; return e; }
cudaError_t cudaPeekAtLastError(void) { return last; }

/* ---- memory ---- */
cudaError_t cudaMalloc(void **p, size_t n) {
  pause_us("FAKEGPU_MALLOC_US");
  pthread_mutex_lock(&lock);
  context(current);
  uint64_t size = UP(n), at = 0;
  if (take(current, size) && !(at = reserve(current, size, size))) give(current, size);
  pthread_mutex_unlock(&lock);
  *p = (void *)at;
  return fg_fail(at ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void *p) {
  pause_us("FAKEGPU_MALLOC_US");
  if (!p) return cudaSuccess;
  pthread_mutex_lock(&lock);
  int ok = release((uint64_t)p);
  pthread_mutex_unlock(&lock);
  return fg_fail(ok ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemGetInfo(size_t *f, size_t *t) {
  pthread_mutex_lock(&lock); context(current); pthread_mutex_unlock(&lock);
  *f = device_free(current); *t = device(current)->total - device(current)->reserved; return cudaSuccess;
}
cudaError_t cudaMallocAsync(void **p, size_t n, cudaStream_t s) { return cudaMalloc(p, n); }
cudaError_t cudaFreeAsync(void *p, cudaStream_t s) { return cudaFree(p); }
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *p, int d) { *p = (cudaMemPool_t)&dummy; return cudaSuccess; }
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t p, enum cudaMemPoolAttr a, void *v) { *(uint64_t *)v = 0; return cudaSuccess; }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t p, enum cudaMemPoolAttr a, void *v) { return cudaSuccess; }
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t p, const struct cudaMemAccessDesc *d, size_t n) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t p, size_t n) { return cudaSuccess; }

static struct { uint64_t start, size; } host[4096];
cudaError_t cudaHostAlloc(void **p, size_t n, unsigned flags) {
  if (posix_memalign(p, 4096, n ? n : 1)) return fg_fail(cudaErrorMemoryAllocation);
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 4096; i++) if (!host[i].start) { host[i].start = (uint64_t)*p; host[i].size = n; break; }
  pthread_mutex_unlock(&lock);
  return cudaSuccess;
}
static void forget(void *p) { pthread_mutex_lock(&lock); for (int i = 0; i < 4096; i++) if (host[i].start == (uint64_t)p) host[i].start = 0; pthread_mutex_unlock(&lock); }
cudaError_t cudaFreeHost(void *p) { forget(p); free(p); return cudaSuccess; }
cudaError_t cudaHostRegister(void *p, size_t n, unsigned f) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 4096; i++) if (!host[i].start) { host[i].start = (uint64_t)p; host[i].size = n; break; }
  pthread_mutex_unlock(&lock);
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void *p) { forget(p); return cudaSuccess; }
static int is_pinned(const void *p) {
  for (int i = 0; i < 4096; i++) if (host[i].start && (uint64_t)p >= host[i].start && (uint64_t)p < host[i].start + host[i].size) return 1;
  return 0;
}
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p) {
  int d = device_of((uint64_t)p);
  memset(a, 0, sizeof *a);
  a->type = d >= 0 ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  a->device = d;
  if (d >= 0) a->devicePointer = (void *)p;
  else if (is_pinned(p)) { a->type = cudaMemoryTypeHost; a->device = 0; a->hostPointer = a->devicePointer = (void *)p; }
  return cudaSuccess;
}
/* The host waits for a copy from or to memory that is not pinned: a driver stages it. */
static cudaError_t copy(void *to, const void *from, size_t n, cudaStream_t s, int waits) {
  int is_to = device_of((uint64_t)to) >= 0, is_from = device_of((uint64_t)from) >= 0;
  if (is_to) fg_write(to, from, n, is_from); else if (is_from) fg_read(to, from, n); else memmove(to, from, n);
  if (is_to || is_from) fg_copied(s, is_to && is_from ? 0 : n);
  if (waits || (is_to != is_from && !is_pinned(is_to ? from : to))) return fg_stream_waits(s);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t n, enum cudaMemcpyKind k) { return copy(to, from, n, NULL, 1); }
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind k, cudaStream_t s) { return copy(to, from, n, s, 0); }
cudaError_t cudaMemcpyPeerAsync(void *to, int a, const void *from, int b, size_t n, cudaStream_t s) { fg_copied(s, n); return cudaSuccess; }
cudaError_t cudaMemcpyToSymbol(const void *s, const void *p, size_t n, size_t o, enum cudaMemcpyKind k) { return cudaSuccess; }
cudaError_t cudaGetSymbolAddress(void **p, const void *s) { *p = (void *)s; return cudaSuccess; }
cudaError_t cudaMemset(void *p, int v, size_t n) { if (device_of((uint64_t)p) < 0) memset(p, v, n); return cudaSuccess; }
cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t s) { fg_launched(s); return cudaMemset(p, v, n); }
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *h, void *p) { return fg_fail(cudaErrorNotSupported); }
cudaError_t cudaIpcOpenMemHandle(void **p, cudaIpcMemHandle_t h, unsigned f) { return fg_fail(cudaErrorNotSupported); }
cudaError_t cudaIpcCloseMemHandle(void *p) { return fg_fail(cudaErrorNotSupported); }
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *h, cudaEvent_t e) { return fg_fail(cudaErrorNotSupported); }
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *e, cudaIpcEventHandle_t h) { return fg_fail(cudaErrorNotSupported); }

/* ---- the driver: virtual memory management for expandable segments, and what else is looked up ---- */

CUresult cuInit(unsigned f) { return fg_open() ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE; }
CUresult cuDriverGetVersion(int *v) { *v = fg_open()->cuda_version; return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int *n) { *n = count(); return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice *d, int i) { *d = i; return CUDA_SUCCESS; }
CUresult cuDeviceGetName(char *n, int k, CUdevice d) { snprintf(n, k, "%s", device(d)->name); return CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d) { *v = attribute(a); return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned *f, int *active) { *f = 0; *active = arena[d].base != 0; return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) { *c = (CUcontext)&dummy; return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext *c) { *c = (CUcontext)&dummy; return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext c) { return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult r, const char **s) { *s = r ? "fake driver error" : "no error"; return CUDA_SUCCESS; }
CUresult cuPointerGetAttribute(void *v, CUpointer_attribute a, CUdeviceptr p) { *(uint64_t *)v = 0; return CUDA_SUCCESS; }
CUresult cuMemGetAllocationGranularity(size_t *g, const CUmemAllocationProp *p, CUmemAllocationGranularity_flags f) { *g = GRAIN; return CUDA_SUCCESS; }
CUresult cuMemAddressReserve(CUdeviceptr *p, size_t n, size_t align, CUdeviceptr at, unsigned long long f) {
  pthread_mutex_lock(&lock); context(current); *p = reserve(current, UP(n), 0); pthread_mutex_unlock(&lock);
  return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemAddressFree(CUdeviceptr p, size_t n) { pthread_mutex_lock(&lock); release(p); pthread_mutex_unlock(&lock); return CUDA_SUCCESS; }
typedef struct { int device; uint64_t size; } handle;
CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *p, unsigned long long f) {
  pause_us("FAKEGPU_MALLOC_US");
  pthread_mutex_lock(&lock);
  context(p->location.id);
  int ok = take(p->location.id, n);
  pthread_mutex_unlock(&lock);
  if (!ok) return CUDA_ERROR_OUT_OF_MEMORY;
  handle *made = malloc(sizeof *made);
  *made = (handle){p->location.id, n};
  *h = (CUmemGenericAllocationHandle)(uintptr_t)made;
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle h) { handle *made = (handle *)(uintptr_t)h; give(made->device, made->size); free(made); return CUDA_SUCCESS; }
CUresult cuMemMap(CUdeviceptr p, size_t n, size_t o, CUmemGenericAllocationHandle h, unsigned long long f) { return CUDA_SUCCESS; }
CUresult cuMemUnmap(CUdeviceptr p, size_t n) { return CUDA_SUCCESS; }
CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *size, CUdeviceptr p) {
  int d = device_of(p);
  for (int i = 0; d >= 0 && i < arena[d].n; i++)
    if (p >= arena[d].r[i].start && p < arena[d].r[i].start + arena[d].r[i].size) {
      if (start) *start = arena[d].r[i].start;
      if (size) *size = arena[d].r[i].size;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}
#undef cuMemGetAddressRange
CUresult cuMemGetAddressRange(CUdeviceptr *start, size_t *size, CUdeviceptr p) { return cuMemGetAddressRange_v2(start, size, p); }
CUresult cuMemSetAccess(CUdeviceptr p, size_t n, const CUmemAccessDesc *d, size_t k) { return CUDA_SUCCESS; }





cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **f, unsigned version, unsigned long long flags, enum cudaDriverEntryPointQueryResult *q) {
  *f = dlsym(RTLD_DEFAULT, symbol);
  if (!*f) { void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD); if (self) *f = dlsym(self, symbol); }
  if (q) *q = *f ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **f, unsigned long long flags, enum cudaDriverEntryPointQueryResult *q) { return cudaGetDriverEntryPointByVersion(symbol, f, 0, flags, q); }
