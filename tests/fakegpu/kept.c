/* Small copies to a device, kept so that they can be read back: what ranks tell each other through device memory, as
 * DistributedDataParallel does with the order of its buckets. Kernels do not change them.
 *   FAKEGPU_KEPT_COPIES  set: they are kept, and what is read back is zeros for the rest only */
#include "cuda.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PLACES 256
#define MOST (64 << 10)

static struct { void *to, *bytes; size_t size; } kept[PLACES];
static int next;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int place_of(const void *p) { for (int i = 0; i < PLACES; i++) if (kept[i].to == p) return i; return -1; }

/* What is at a place of a device: zeros, or what was kept. */
void fg_read(void *to, const void *from, size_t n) {
  memset(to, 0, n);
  pthread_mutex_lock(&lock);
  int i = place_of(from);
  if (i >= 0) memcpy(to, kept[i].bytes, n < kept[i].size ? n : kept[i].size);
  pthread_mutex_unlock(&lock);
}
/* Bytes go to a device: from the host, or from another place of a device. */
void fg_write(void *to, const void *from, size_t n, int is_from_device) {
  if (!getenv("FAKEGPU_KEPT_COPIES") || !n || n > MOST) return;
  void *bytes = malloc(n);
  if (is_from_device) fg_read(bytes, from, n); else memcpy(bytes, from, n);
  pthread_mutex_lock(&lock);
  int i = place_of(to);
  if (i < 0) i = next++ % PLACES;
  free(kept[i].bytes);
  kept[i].to = to; kept[i].bytes = bytes; kept[i].size = n;
  pthread_mutex_unlock(&lock);
}
