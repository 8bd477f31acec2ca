/* What the parts of the fake CUDA share. */
#define __CUDART_API_VERSION_INTERNAL 1
#include "state.h"
#include <cuda.h>
#include <cuda_runtime_api.h>
#undef cudaGetDeviceProperties
#undef cudaStreamGetCaptureInfo

cudaError_t fg_fail(cudaError_t e);      /* e, which cudaGetLastError then returns in this thread */
int fg_current(void);                    /* the thread's current device */

void fg_launched(cudaStream_t s);        /* a kernel was launched on s: the host waits while the queue is full */
void fg_read(void *to, const void *from, size_t n); /* bytes of a device to the host */
void fg_write(void *to, const void *from, size_t n, int is_from_device); /* bytes to a device */
void fg_copied(cudaStream_t s, size_t bytes); /* a copy was queued on s; 0 bytes: within the device */
cudaError_t fg_stream_waits(cudaStream_t s); /* the host waits until s has done all; an error while s is captured */
cudaError_t fg_device_waits(int device);        /* the same for all streams of a device */
