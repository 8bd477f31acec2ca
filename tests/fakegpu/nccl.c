/* NCCL for devices that are not there: communicators know their rank and size, and collectives are kernels that compute
 * nothing: with FAKEGPU_KEPT_COPIES, a rank is told that all others said the same as it did. It is preloaded with the fake
 * CUDA, and its functions stand in front of the real library's. Who opens NCCL by its path opens libcuda.so.1 of this
 * folder instead (vLLM: VLLM_NCCL_SO_PATH). */
#include "cuda.h"
#include <stdlib.h>
#include <string.h>

typedef struct { char bytes[128]; } unique_id;
typedef struct { int ranks, rank, device; } communicator;
enum { DONE = 0, INVALID_USAGE = 5 };

static int made(communicator **to, int ranks, int rank) {
  communicator *it = malloc(sizeof *it);
  *it = (communicator){ranks, rank, fg_current()};
  *to = it;
  return DONE;
}
int ncclGetVersion(int *version) { *version = 22803; return DONE; }
const char *ncclGetErrorString(int error) { return error ? "not supported by the fake NCCL" : "no error"; }
const char *ncclGetLastError(void *comm) { return ""; }
int ncclGetUniqueId(unique_id *id) { memset(id, 1, sizeof *id); return DONE; }
int ncclCommGetUniqueId(void *comm, unique_id *id) { return ncclGetUniqueId(id); }
int ncclCommInitRank(communicator **to, int ranks, unique_id id, int rank) { return made(to, ranks, rank); }
int ncclCommInitRankConfig(communicator **to, int ranks, unique_id id, int rank, void *config) { return made(to, ranks, rank); }
int ncclCommInitRankScalable(communicator **to, int ranks, int rank, int n, unique_id *ids, void *config) { return made(to, ranks, rank); }
int ncclCommInitAll(communicator **to, int n, const int *devices) { for (int i = 0; i < n; i++) made(to + i, n, i); return DONE; }
/* Who is in a part of a communicator is not known here: it is said to be as large. */
int ncclCommSplit(communicator *of, int color, int key, communicator **to, void *config) { return made(to, of->ranks, of->rank); }
int ncclCommShrink(communicator *of, int *without, int n, communicator **to, void *config, int flags) { return made(to, of->ranks - n, of->rank); }
int ncclCommCount(communicator *it, int *ranks) { *ranks = it->ranks; return DONE; }
int ncclCommUserRank(communicator *it, int *rank) { *rank = it->rank; return DONE; }
int ncclCommCuDevice(communicator *it, int *device) { *device = it->device; return DONE; }
int ncclCommGetAsyncError(communicator *it, int *error) { *error = DONE; return DONE; }
int ncclCommDestroy(communicator *it) { free(it); return DONE; }
int ncclCommAbort(communicator *it) { free(it); return DONE; }
int ncclMemAlloc(void **p, size_t size) { return cudaMalloc(p, size) ? INVALID_USAGE : DONE; }
int ncclMemFree(void *p) { return cudaFree(p) ? INVALID_USAGE : DONE; }
int ncclCommRegister(communicator *it, void *p, size_t size, void **handle) { *handle = p; return DONE; }
int ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int where, communicator *it) { *op = 5; return DONE; }

/* A kernel that puts what this rank has to a place, so many times. */
static int same(const void *from, void *to, size_t n, int type, int times, cudaStream_t s) {
  static const int bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  size_t each = n * (type >= 0 && type < 12 ? bytes[type] : 1);
  if (getenv("FAKEGPU_KEPT_COPIES") && each * times <= 64 << 10) {
    char *all = malloc(each * times + 1);
    for (int i = 0; i < times; i++) fg_read(all + i * each, from, each);
    for (int i = times - 1; i >= 0; i--) fg_write((char *)to + i * each, all, each * (times - i), 0); /* each place is read alone, too */
    free(all);
  }
  fg_launched(s);
  return DONE;
}
int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, communicator *it, cudaStream_t s) { return same(from, to, n, type, 1, s); }
int ncclReduceScatter(const void *from, void *to, size_t n, int type, int op, communicator *it, cudaStream_t s) { return same(from, to, n, type, 1, s); }
int ncclReduce(const void *from, void *to, size_t n, int type, int op, int root, communicator *it, cudaStream_t s) { return same(from, to, n, type, 1, s); }
int ncclAllGather(const void *from, void *to, size_t n, int type, communicator *it, cudaStream_t s) { return same(from, to, n, type, it->ranks, s); }
int ncclAlltoAll(const void *from, void *to, size_t n, int type, communicator *it, cudaStream_t s) { return same(from, to, n, type, it->ranks, s); }
int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, communicator *it, cudaStream_t s) { return same(from, to, n, type, 1, s); }
int ncclBcast(void *to, size_t n, int type, int root, communicator *it, cudaStream_t s) { fg_launched(s); return DONE; }
int ncclGather(const void *from, void *to, size_t n, int type, int root, communicator *it, cudaStream_t s) { fg_launched(s); return DONE; }
int ncclSend(const void *from, size_t n, int type, int peer, communicator *it, cudaStream_t s) { fg_launched(s); return DONE; }
int ncclRecv(void *to, size_t n, int type, int peer, communicator *it, cudaStream_t s) { fg_launched(s); return DONE; }

#define ALWAYS(name, answer) int name() { return answer; }
ALWAYS(ncclCommFinalize, DONE) ALWAYS(ncclCommDeregister, DONE) ALWAYS(ncclGroupStart, DONE) ALWAYS(ncclGroupEnd, DONE)
ALWAYS(ncclGroupSimulateEnd, DONE) ALWAYS(ncclRedOpDestroy, DONE) ALWAYS(ncclCommWindowDeregister, DONE)
ALWAYS(ncclCommWindowRegister, INVALID_USAGE) ALWAYS(ncclCommSuspend, INVALID_USAGE) ALWAYS(ncclCommResume, INVALID_USAGE)
ALWAYS(ncclCommRevoke, INVALID_USAGE) ALWAYS(ncclCommGrow, INVALID_USAGE) ALWAYS(ncclCommMemStats, INVALID_USAGE)
ALWAYS(ncclCommQueryProperties, INVALID_USAGE) ALWAYS(ncclDevCommCreate, INVALID_USAGE) ALWAYS(ncclDevCommDestroy, DONE)
ALWAYS(ncclPutSignal, INVALID_USAGE) ALWAYS(ncclSignal, INVALID_USAGE) ALWAYS(ncclWaitSignal, INVALID_USAGE)
ALWAYS(ncclWinGetUserPtr, INVALID_USAGE) ALWAYS(ncclGetPeerDevicePointer, INVALID_USAGE) ALWAYS(ncclGetLsaMultimemDevicePointer, INVALID_USAGE)
