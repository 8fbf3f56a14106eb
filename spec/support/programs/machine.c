/* A library for LD_PRELOAD that gives a process another machine: $CORES cores, at most $THREADS
 * threads, and no CLOCK_BOOTTIME while the file $NO_CLOCK exists. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

long sysconf(int name) {
  long (*real)(int) = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
  const char *cores = getenv("CORES");
  return cores != NULL &&
                 (name == _SC_NPROCESSORS_CONF || name == _SC_NPROCESSORS_ONLN)
             ? atol(cores)
             : real(name);
}

static long count_threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  long n = -2; /* the entries "." and ".." */
  while (readdir(tasks) != NULL) {
    n++;
  }
  closedir(tasks);
  return n;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                   void *(*run)(void *), void *arg) {
  int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
      (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
               void *))dlsym(RTLD_NEXT, "pthread_create");
  const char *most = getenv("THREADS");
  if (most != NULL && count_threads() >= atol(most)) return EAGAIN;
  return real(thread, attr, run, arg);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int (*real)(clockid_t, struct timespec *) =
      (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  const char *file = getenv("NO_CLOCK");
  if (clock == CLOCK_BOOTTIME && file != NULL && access(file, F_OK) == 0) {
    errno = EINVAL;
    return -1;
  }
  return real(clock, now);
}
