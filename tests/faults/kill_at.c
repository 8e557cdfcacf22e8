/* Kills the process before its Nth change of a file below a folder.

   For LD_PRELOAD, with KILL_FOLDER, KILL_AT (0: never) and, for one of several workers, KILL_RANK in
   the environment. Every second write that is chosen is done by half before. The paths that were
   changed, a line a change, go to the file KILL_PATHS at the end of a process that is not killed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(type, name, ...) \
  static type (*real)(__VA_ARGS__); \
  if (!real) real = dlsym(RTLD_NEXT, name)

static const char *folder;
static long kill_at, count;
static char *paths;
static size_t paths_size;
static __thread char changed[PATH_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t owner;

__attribute__((constructor)) static void begin(void) {
  const char *at = getenv("KILL_AT"), *rank = getenv("KILL_RANK");
  const char *own = getenv("OMPI_COMM_WORLD_RANK");
  folder = getenv("KILL_FOLDER");
  if (rank && (!own || strcmp(rank, own))) folder = NULL;
  kill_at = at ? atol(at) : 0;
  owner = getpid();
}

__attribute__((destructor)) static void end(void) {
  const char *path = getenv("KILL_PATHS");
  if (!folder || !path || getpid() != owner) return;
  folder = NULL;
  FILE *file = fopen(path, "w");
  if (file) {
    fwrite(paths, 1, paths_size, file);
    fclose(file);
  }
}

static int is_below(const char *path) {
  char absolute[PATH_MAX];
  if (!folder || !path) return 0;
  snprintf(changed, sizeof changed, "%s", path);
  if (path[0] != '/') {
    if (!getcwd(absolute, sizeof absolute)) return 0;
    return strncmp(absolute, folder, strlen(folder)) == 0;
  }
  return strncmp(path, folder, strlen(folder)) == 0;
}

static int is_open_below(int descriptor) {
  char link[64], path[PATH_MAX];
  if (!folder) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  /* The curves are most of all writes, and no result. */
  return is_below(path) && !strstr(path, "tfevents");
}

/* Whether this is the change to die at. Only the process itself, not what it forks. */
static int is_the_one(void) {
  if (getpid() != owner) return 0;
  pthread_mutex_lock(&lock);
  int is = ++count == kill_at;
  size_t length = strlen(changed);
  char *more = getenv("KILL_PATHS") ? realloc(paths, paths_size + length + 1) : NULL;
  if (more) {
    paths = more;
    memcpy(paths + paths_size, changed, length);
    paths_size += length;
    paths[paths_size++] = '\n';
  }
  pthread_mutex_unlock(&lock);
  return is;
}

static void maybe_die(int counts) {
  if (counts && is_the_one()) kill(getpid(), SIGKILL);
}

#define OPENS(name) \
  int name(const char *path, int flags, ...) { \
    REAL(int, #name, const char *, int, ...); \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more); \
    maybe_die(flags & (O_CREAT | O_TRUNC) && is_below(path)); \
    return real(path, flags, mode); \
  }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name) \
  int name(int at, const char *path, int flags, ...) { \
    REAL(int, #name, int, const char *, int, ...); \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more); \
    maybe_die(flags & (O_CREAT | O_TRUNC) && is_below(path)); \
    return real(at, path, flags, mode); \
  }
OPENS_AT(openat)
OPENS_AT(openat64)

#define FOPENS(name) \
  FILE *name(const char *path, const char *mode) { \
    REAL(FILE *, #name, const char *, const char *); \
    maybe_die(mode[0] != 'r' && is_below(path)); \
    return real(path, mode); \
  }
FOPENS(fopen)
FOPENS(fopen64)

ssize_t write(int descriptor, const void *data, size_t size) {
  REAL(ssize_t, "write", int, const void *, size_t);
  if (is_open_below(descriptor) && is_the_one()) {
    if (kill_at % 2) real(descriptor, data, size / 2);
    kill(getpid(), SIGKILL);
  }
  return real(descriptor, data, size);
}

size_t fwrite(const void *data, size_t size, size_t number, FILE *file) {
  REAL(size_t, "fwrite", const void *, size_t, size_t, FILE *);
  if (is_open_below(fileno(file)) && is_the_one()) {
    if (kill_at % 2) {
      real(data, size, number / 2, file);
      fflush(file);
    }
    kill(getpid(), SIGKILL);
  }
  return real(data, size, number, file);
}

int fclose(FILE *file) {
  REAL(int, "fclose", FILE *);
  maybe_die(is_open_below(fileno(file)));
  return real(file);
}

#define ONE_PATH(name) \
  int name(const char *path) { \
    REAL(int, #name, const char *); \
    maybe_die(is_below(path)); \
    return real(path); \
  }
ONE_PATH(unlink)
ONE_PATH(rmdir)

#define TWO_PATHS(name) \
  int name(const char *from, const char *to) { \
    REAL(int, #name, const char *, const char *); \
    maybe_die(is_below(to)); \
    return real(from, to); \
  }
TWO_PATHS(rename)
TWO_PATHS(link)

int mkdir(const char *path, mode_t mode) {
  REAL(int, "mkdir", const char *, mode_t);
  maybe_die(is_below(path));
  return real(path, mode);
}

int fsync(int descriptor) {
  REAL(int, "fsync", int);
  maybe_die(is_open_below(descriptor));
  return real(descriptor);
}
