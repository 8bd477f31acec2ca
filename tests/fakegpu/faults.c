/* Preloaded into a program, makes the n-th system call of a kind fail: LD_PRELOAD=libfaults.so.
 *
 * faults_start(kind, n, error) begins to count; n = 0 only counts. faults_count() is how many calls of the kind there were.
 * From the n-th call on `lasting` calls fail: 1 is a fault that passes, a large number one that stays.
 * Three kinds do something else at the n-th call: "signal" sends the signal `error` to this process when it opens or reads
 * a file, "half" does so when half of what a database writes is written, and "time" sets the clock by `error` seconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <dirent.h>
#include <time.h>
#include <unistd.h>

static const char *kind; /* NULL: nothing is counted */
static long first, lasting, count;
static int error;

void faults_start(const char *of, long n, long how_many, int number) {
  first = n; lasting = how_many; error = number; count = 0;
  __atomic_store_n(&kind, strdup(of), __ATOMIC_SEQ_CST);
}
long faults_count(void) { return __atomic_load_n(&count, __ATOMIC_SEQ_CST); }

/* Whether this is a call whose turn it is. */
static int is_due(const char *of) {
  const char *wanted = __atomic_load_n(&kind, __ATOMIC_SEQ_CST);
  if (!wanted || strcmp(wanted, of)) return 0;
  long n = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
  return first && n >= first && n < first + lasting;
}
static int fails(const char *of) {
  if ((!strcmp(of, "open") || !strcmp(of, "read")) && is_due("signal")) kill(getpid(), error);
  if (!is_due(of)) return 0;
  errno = error;
  return 1;
}
int clock_gettime(clockid_t clock, struct timespec *out) {
  static long off_s;
  int status = syscall(SYS_clock_gettime, clock, out);
  if (clock == CLOCK_REALTIME) {
    if (is_due("time")) off_s += error;
    out->tv_sec += off_s;
  }
  return status;
}
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAULTY(of, type, name, parameters, arguments) \
  type name parameters { if (fails(of)) return (type)-1; static __typeof__(&name) next; if (!next) next = NEXT(name); return next arguments; }

static int mode_of(int flags, va_list list) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0; }
#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    va_list list; va_start(list, flags); int mode = mode_of(flags, list); va_end(list); \
    return fails("open") ? -1 : syscall(SYS_openat, AT_FDCWD, path, flags, mode); }
#define OPENAT(name) \
  int name(int folder, const char *path, int flags, ...) { \
    va_list list; va_start(list, flags); int mode = mode_of(flags, list); va_end(list); \
    return fails("open") ? -1 : syscall(SYS_openat, folder, path, flags, mode); }
OPEN(open) OPEN(open64) OPENAT(openat) OPENAT(openat64)

FAULTY("read", ssize_t, read, (int fd, void *data, size_t size), (fd, data, size))
FAULTY("read", ssize_t, pread, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
FAULTY("read", ssize_t, pread64, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
FAULTY("read", ssize_t, process_vm_readv, (pid_t pid, const struct iovec *to, unsigned long n, const struct iovec *from, unsigned long m, unsigned long flags), (pid, to, n, from, m, flags))
FAULTY("read", ssize_t, readlink, (const char *path, char *data, size_t size), (path, data, size))
FAULTY("write", ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
  int is_last = is_due("half");
  ssize_t done = syscall(SYS_pwrite64, fd, data, is_last ? size / 2 : size, at);
  if (is_last) kill(getpid(), error);
  return done;
}
FAULTY("socket", int, socket, (int domain, int type, int protocol), (domain, type, protocol))
FAULTY("socket", int, connect, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size))
FAULTY("socket", ssize_t, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags))
FAULTY("socket", ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags))
FAULTY("descriptor", int, dup, (int fd), (fd))
FAULTY("descriptor", int, dup2, (int fd, int to), (fd, to))
FAULTY("descriptor", int, pipe, (int *fds), (fds))
FAULTY("descriptor", int, pipe2, (int *fds, int flags), (fds, flags))
FAULTY("stat", int, stat, (const char *path, struct stat *out), (path, out))
FAULTY("stat", int, lstat, (const char *path, struct stat *out), (path, out))
FAULTY("stat", int, fstat, (int fd, struct stat *out), (fd, out))
FAULTY("stat", int, stat64, (const char *path, struct stat64 *out), (path, out))
FAULTY("stat", int, lstat64, (const char *path, struct stat64 *out), (path, out))
FAULTY("stat", int, fstat64, (int fd, struct stat64 *out), (fd, out))

DIR *opendir(const char *path) { return fails("open") ? NULL : NEXT(opendir)(path); }
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t from) {
  if (fails("memory")) return MAP_FAILED;
  return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, from);
}
void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t from) { return mmap(at, size, protection, flags, fd, from); }
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *with) {
  return fails("thread") ? error : NEXT(pthread_create)(thread, how, run, with);
}
