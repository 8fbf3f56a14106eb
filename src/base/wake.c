/* wake: completions for a program that must not block. */
#include "base/wake.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"

struct el_wake {
  int fd;             /* written by Lua's side, when nobody can push any more */
  pthread_mutex_t mu; /* guards the rest; a leaf */
  uint64_t *ids;
  size_t n, room;
};

el_wake *el_wake_new(void) {
  el_wake *wake = calloc(1, sizeof *wake);
  if (wake == NULL) return NULL;
  wake->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake->fd < 0) {
    free(wake);
    return NULL;
  }
  pthread_mutex_init(&wake->mu, NULL);
  return wake;
}

void el_wake_free(el_wake *wake) {
  if (wake == NULL) return;
  el_wake_shut(wake);
  pthread_mutex_destroy(&wake->mu);
  free(wake->ids);
  free(wake);
}

int el_wake_fd(const el_wake *wake) { return wake->fd; }

void el_wake_shut(el_wake *wake) {
  if (wake->fd < 0) return;
  close(wake->fd);
  wake->fd = -1;
}

static void grow(el_wake *wake) {
  size_t room = wake->room > 0 ? wake->room * 2 : 16;
  uint64_t *ids = el_alloc(room * sizeof *ids);
  if (wake->n > 0) {
    memcpy(ids, wake->ids, wake->n * sizeof *ids);
  }
  free(wake->ids);
  wake->ids = ids;
  wake->room = room;
}

void el_wake_push(el_wake *wake, uint64_t id) {
  pthread_mutex_lock(&wake->mu);
  if (wake->n == wake->room) {
    grow(wake);
  }
  wake->ids[wake->n++] = id;
  if (wake->n == 1) {
    eventfd_write(wake->fd, 1);
  }
  pthread_mutex_unlock(&wake->mu);
}

size_t el_wake_take(el_wake *wake, uint64_t *ids, size_t max) {
  size_t n;
  eventfd_t rings;
  pthread_mutex_lock(&wake->mu);
  n = wake->n < max ? wake->n : max;
  if (n > 0) {
    memcpy(ids, wake->ids, n * sizeof *ids);
    memmove(wake->ids, wake->ids + n, (wake->n - n) * sizeof *ids);
    wake->n -= n;
  }
  if (wake->n == 0 && wake->fd >= 0) {
    eventfd_read(wake->fd, &rings);
  }
  pthread_mutex_unlock(&wake->mu);
  return n;
}
