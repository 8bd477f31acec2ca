/* What takes time on the fake devices: kernels, copies and graphs, queued on streams, and the events between them. A stream
 * does one thing after the other, streams do so side by side. The host runs ahead until a queue is full or it waits.
 *   FAKEGPU_KERNEL_US     time of each kernel, those of cuBLAS too (0: nothing takes time)
 *   FAKEGPU_COPY_GB_S     bytes that a copy to or from the host moves, in GB/s, where kernels take time (25)
 *   FAKEGPU_EVENT_LAG_MS  how long an event stays unfinished after all before it is done (0) */
#define _GNU_SOURCE
#include "cuda.h"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define QUEUE 1024 /* launches that a stream takes before it makes the next one wait, as measured on GPUs */

typedef struct { int kernels; } graph;
typedef struct stream { unsigned long long capture; int is_invalid; graph *captured; int device; double busy_until; struct stream *next; } stream;
typedef struct { double done_at; } event;
static stream by_default[FG_MAX_DEV], *created;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long long captures;

static double number(const char *name, double otherwise) { const char *v = getenv(name); return v ? atof(v) : otherwise; }
static double kernel_ms(void) { static double ms = -1; return ms < 0 ? ms = number("FAKEGPU_KERNEL_US", 0) / 1e3 : ms; }
static double now_ms(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e3 + t.tv_nsec * 1e-6; }
static double later(double a, double b) { return a > b ? a : b; }
static void wait_until(double ms) { double left = ms - now_ms(); if (left > 0) usleep(left * 1e3); }
static int is_named(cudaStream_t s) { return (uintptr_t)s > 4; } /* not one of the runtime's own: legacy, per thread */
static stream *of(cudaStream_t s) { return is_named(s) ? (stream *)s : &by_default[fg_current()]; }

/* Queues what takes `ms` on a stream, behind all that is there. */
static double queue(stream *s, double ms) {
  pthread_mutex_lock(&lock);
  double end = s->busy_until = later(s->busy_until, now_ms()) + ms;
  pthread_mutex_unlock(&lock);
  return end;
}
void fg_launched(cudaStream_t s) {
  if (of(s)->capture) of(s)->captured->kernels++;
  else if (kernel_ms()) wait_until(queue(of(s), kernel_ms()) - QUEUE * kernel_ms());
}
void fg_copied(cudaStream_t s, size_t bytes) {
  if (!bytes || of(s)->capture) fg_launched(s);
  else if (kernel_ms()) queue(of(s), bytes / (number("FAKEGPU_COPY_GB_S", 25) * 1e6));
}
/* Waiting for a stream that is being captured is not allowed, and spoils the capture. */
static cudaError_t spoil(stream *s) { s->is_invalid = 1; return fg_fail(cudaErrorStreamCaptureUnsupported); }
cudaError_t fg_stream_waits(cudaStream_t s) {
  if (of(s)->capture) return spoil(of(s));
  wait_until(of(s)->busy_until);
  return cudaSuccess;
}
cudaError_t fg_device_waits(int device) {
  cudaError_t error = cudaSuccess;
  pthread_mutex_lock(&lock);
  double end = by_default[device].busy_until;
  for (stream *s = created; s; s = s->next) if (s->device == device) {
    end = later(end, s->busy_until);
    if (s->capture) error = spoil(s);
  }
  pthread_mutex_unlock(&lock);
  if (!error) wait_until(end);
  return error;
}

/* ---- streams ---- */
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned f, int p) {
  stream *fresh = calloc(1, sizeof *fresh);
  fresh->device = fg_current();
  pthread_mutex_lock(&lock); fresh->next = created; created = fresh; pthread_mutex_unlock(&lock);
  *s = (cudaStream_t)fresh;
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t *s) { return cudaStreamCreateWithPriority(s, 0, 0); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned f) { return cudaStreamCreateWithPriority(s, f, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  pthread_mutex_lock(&lock);
  stream **at = &created;
  while (*at && *at != (stream *)s) at = &(*at)->next;
  if (*at) *at = (*at)->next;
  pthread_mutex_unlock(&lock);
  free(s);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t s) { return now_ms() < of(s)->busy_until ? fg_fail(cudaErrorNotReady) : cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t s) { return fg_stream_waits(s); }
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned f) {
  pthread_mutex_lock(&lock); of(s)->busy_until = later(of(s)->busy_until, ((event *)e)->done_at); pthread_mutex_unlock(&lock);
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t s, int *p) { *p = 0; return cudaSuccess; }
cudaError_t cudaStreamAddCallback(cudaStream_t s, cudaStreamCallback_t f, void *u, unsigned x) { f(s, cudaSuccess, u); return cudaSuccess; }
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void *u) { f(u); return cudaSuccess; }

/* ---- events ---- */
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned f) { *e = calloc(1, sizeof(event)); return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t *e) { return cudaEventCreateWithFlags(e, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t e) { free(e); return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) { ((event *)e)->done_at = later(of(s)->busy_until, now_ms()) + number("FAKEGPU_EVENT_LAG_MS", 0); return cudaSuccess; }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned f) { return cudaEventRecord(e, s); }
cudaError_t cudaEventQuery(cudaEvent_t e) { return now_ms() < ((event *)e)->done_at ? fg_fail(cudaErrorNotReady) : cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t e) { wait_until(((event *)e)->done_at); return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) { *ms = ((event *)b)->done_at - ((event *)a)->done_at; return cudaSuccess; }

/* ---- graphs: of a captured stream the number of kernels is kept ---- */
static stream *captured(cudaStream_t s) { return is_named(s) ? (stream *)s : NULL; }
cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode m) {
  if (!captured(s)) return cudaSuccess;
  if (captured(s)->capture) return fg_fail(cudaErrorIllegalState);
  captured(s)->captured = calloc(1, sizeof(graph)); captured(s)->capture = ++captures; captured(s)->is_invalid = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g) {
  int is_invalid = captured(s) && captured(s)->is_invalid;
  *g = is_invalid ? NULL : (cudaGraph_t)(captured(s) ? captured(s)->captured : calloc(1, sizeof(graph)));
  if (captured(s)) captured(s)->capture = captured(s)->is_invalid = 0;
  return is_invalid ? fg_fail(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *c) {
  int is_capturing = captured(s) && captured(s)->capture;
  *c = !is_capturing ? cudaStreamCaptureStatusNone : captured(s)->is_invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
static void capture_info(cudaStream_t s, enum cudaStreamCaptureStatus *c, unsigned long long *id, cudaGraph_t *g, const cudaGraphNode_t **deps, size_t *n) {
  cudaStreamIsCapturing(s, c);
  if (id) *id = captured(s) ? captured(s)->capture : 0;
  if (g) *g = (cudaGraph_t)of(s)->captured;
  if (deps) *deps = NULL;
  if (n) *n = 0;
}
#if CUDART_VERSION >= 13000 /* one name, whose arguments changed; 12 has it as _v2 */
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, enum cudaStreamCaptureStatus *c, unsigned long long *id, cudaGraph_t *g, const cudaGraphNode_t **deps, const cudaGraphEdgeData **edges, size_t *n) { capture_info(s, c, id, g, deps, n); if (edges) *edges = NULL; return cudaSuccess; }
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t a, cudaGraphNode_t *d, cudaGraphEdgeData *e, size_t *n) { *n = 0; return cudaSuccess; }
#else
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, enum cudaStreamCaptureStatus *c, unsigned long long *id) { capture_info(s, c, id, NULL, NULL, NULL); return cudaSuccess; }
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t s, enum cudaStreamCaptureStatus *c, unsigned long long *id, cudaGraph_t *g, const cudaGraphNode_t **deps, size_t *n) { capture_info(s, c, id, g, deps, n); return cudaSuccess; }
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t a, cudaGraphNode_t *d, size_t *n) { *n = 0; return cudaSuccess; }
#endif
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *m) { *m = cudaStreamCaptureModeRelaxed; return cudaSuccess; }
/* An executable graph may outlive its graph, and is launched as often as one likes. */
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *e, cudaGraph_t g, unsigned long long f) { graph *copy = calloc(1, sizeof *copy); if (g) *copy = *(graph *)g; *e = (cudaGraphExec_t)copy; return cudaSuccess; }
cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *n) { *n = 1; return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s) { if (kernel_ms()) queue(of(s), ((graph *)e)->kernels * kernel_ms()); return cudaSuccess; }
cudaError_t cudaGraphDestroy(cudaGraph_t g) { free(g); return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e) { free(e); return cudaSuccess; }
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t g, const char *p, unsigned f) { return cudaSuccess; }

/* ---- kernels: registered, launched, never run ---- */
void **__cudaRegisterFatBinary(void *f) { static void *handle[1]; return handle; }
void __cudaRegisterFatBinaryEnd(void **h) {}
void __cudaUnregisterFatBinary(void **h) {}
void __cudaRegisterFunction(void **h, const char *f, char *n, const char *m, int t, void *a, void *b, void *c, void *d, int *e) {}
void __cudaRegisterVar(void **h, char *a, char *b, const char *c, int d, size_t e, int f, int g) {}
static __thread struct { dim3 grid, block; size_t shared; void *stream; } launch;
unsigned __cudaPushCallConfiguration(dim3 g, dim3 b, size_t n, void *s) { launch.grid = g; launch.block = b; launch.shared = n; launch.stream = s; return 0; }
cudaError_t __cudaPopCallConfiguration(dim3 *g, dim3 *b, size_t *n, void *s) { *g = launch.grid; *b = launch.block; *n = launch.shared; *(void **)s = launch.stream; return cudaSuccess; }
cudaError_t __cudaGetKernel(cudaKernel_t *k, const void *f) { *k = (cudaKernel_t)f; return cudaSuccess; }
cudaError_t __cudaLaunchKernel(cudaKernel_t k, dim3 g, dim3 b, void **a, size_t n, cudaStream_t s) { fg_launched(s); return cudaSuccess; }
cudaError_t cudaLaunchKernel(const void *k, dim3 g, dim3 b, void **a, size_t n, cudaStream_t s) { fg_launched(s); return cudaSuccess; }
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *f, void **a) { fg_launched(c->stream); return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *f) { memset(a, 0, sizeof *a); a->maxThreadsPerBlock = 1024; a->numRegs = 32; a->ptxVersion = a->binaryVersion = 90; a->maxDynamicSharedSizeBytes = 227 << 10; return cudaSuccess; }
cudaError_t cudaFuncSetAttribute(const void *f, enum cudaFuncAttribute a, int v) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *f, int b, size_t s, unsigned x) { *n = 2; return cudaSuccess; }
cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
cudaError_t cudaProfilerStop(void) { return cudaSuccess; }
