#define _GNU_SOURCE
#include "state.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static fg_state *place; /* where a state is mapped; it never moves, because device handles point into it */
static int usable;

fg_state *fg_open_at(const char *path) {
  usable = 0;
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return NULL;
  void *map = mmap(place, sizeof *place, PROT_READ | PROT_WRITE, MAP_SHARED | (place ? MAP_FIXED : 0), fd, 0);
  close(fd);
  if (map == MAP_FAILED) return NULL;
  place = map;
  usable = place->magic == FG_MAGIC && place->version == FG_VERSION;
  return usable ? place : NULL;
}

fg_state *fg_open(void) {
  if (usable) return place;
  if (place) return NULL; /* another was asked for and is not usable */
  const char *path = getenv("FAKEGPU_STATE");
  return fg_open_at(path ? path : "/dev/shm/fakegpu");
}
