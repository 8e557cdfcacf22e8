/* Kills the process before its Nth change of a file below a folder.

   For LD_PRELOAD, with KILL_FOLDER, KILL_AT (0: never) and, for one of several workers, KILL_RANK in
   the environment. Every second write that is chosen is done by half before. The paths that are
   changed, a line a change, go to the file KILL_PATHS. */
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

static char *folder;
static long kill_at, count;
static int paths = -1;
static __thread char changed[PATH_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t owner;

__attribute__((constructor)) static void begin(void) {
  const char *rank = getenv("KILL_RANK"), *own = getenv("OMPI_COMM_WORLD_RANK");
  if (!getenv("KILL_FOLDER") || (rank && (!own || strcmp(rank, own)))) return;
  if (getenv("KILL_PATHS")) paths = open(getenv("KILL_PATHS"), O_WRONLY | O_CREAT, 0600);
  kill_at = atol(getenv("KILL_AT") ?: "0");
  owner = getpid();
  folder = strdup(getenv("KILL_FOLDER"));
  /* Not for the programs that it starts. */
  unsetenv("KILL_FOLDER");
}

static int is_below(const char *path) {
  char absolute[PATH_MAX];
  if (!folder || !path) return 0;
  snprintf(changed, sizeof changed, "%s", path);
  if (path[0] != '/' && !(path = getcwd(absolute, sizeof absolute))) return 0;
  return strncmp(path, folder, strlen(folder)) == 0;
}

static int is_made(const char *path, const char *how) { return *how != 'r' && is_below(path); }

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
  if (paths >= 0) dprintf(paths, "%s\n", changed);
  pthread_mutex_unlock(&lock);
  return is;
}

static void die(void) { kill(getpid(), SIGKILL); }

/* Functions that may die before they call the real ones. */
#define REAL(type, name, parameters) \
  static type(*real) parameters; \
  if (!real) real = dlsym(RTLD_NEXT, #name)

#define MAY_DIE(type, name, parameters, arguments, changes) \
  type name parameters { \
    REAL(type, name, parameters); \
    if ((changes) && is_the_one()) die(); \
    return real arguments; \
  }
MAY_DIE(FILE *, fopen, (const char *path, const char *how), (path, how), is_made(path, how))
MAY_DIE(FILE *, fopen64, (const char *path, const char *how), (path, how), is_made(path, how))
MAY_DIE(int, rename, (const char *from, const char *to), (from, to), is_below(to))
MAY_DIE(int, link, (const char *from, const char *to), (from, to), is_below(to))
MAY_DIE(int, unlink, (const char *path), (path), is_below(path))
MAY_DIE(int, rmdir, (const char *path), (path), is_below(path))
MAY_DIE(int, mkdir, (const char *path, mode_t mode), (path, mode), is_below(path))
MAY_DIE(int, fsync, (int descriptor), (descriptor), is_open_below(descriptor))
MAY_DIE(int, fclose, (FILE * file), (file), is_open_below(fileno(file)))

#define OPENS(name, parameters, arguments) \
  int name parameters { \
    REAL(int, name, parameters); \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more); \
    if (flags & (O_CREAT | O_TRUNC) && is_below(path) && is_the_one()) die(); \
    return real arguments; \
  }
OPENS(open, (const char *path, int flags, ...), (path, flags, mode))
OPENS(open64, (const char *path, int flags, ...), (path, flags, mode))
OPENS(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode))
OPENS(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode))

ssize_t write(int descriptor, const void *data, size_t size) {
  REAL(ssize_t, write, (int, const void *, size_t));
  if (is_open_below(descriptor) && is_the_one()) {
    if (kill_at % 2) real(descriptor, data, size / 2);
    die();
  }
  return real(descriptor, data, size);
}

size_t fwrite(const void *data, size_t size, size_t number, FILE *file) {
  REAL(size_t, fwrite, (const void *, size_t, size_t, FILE *));
  if (is_open_below(fileno(file)) && is_the_one()) {
    if (kill_at % 2) {
      real(data, size, number / 2, file);
      fflush(file);
    }
    die();
  }
  return real(data, size, number, file);
}
