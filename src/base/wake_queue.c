/* wake_queue: reports ended waits through one file descriptor. */
#include "base/wake_queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/container_of.h"

struct el_wake_queue {
  el_wake wake;
  /* an eventfd; negative: closed. It is closed when no completion is armed with |wake| any more. */
  int fd;
  pthread_mutex_t mu; /* guards the rest; no other mutex is locked under it */
  uint64_t *ids;
  /* number of IDs in the queue; number of IDs for which it has room */
  size_t n, capacity;
};

static void grow(el_wake_queue *queue) {
  size_t capacity = queue->capacity > 0 ? queue->capacity * 2 : 16;
  uint64_t *ids = el_alloc(capacity * sizeof *ids);
  if (queue->n > 0) {
    memcpy(ids, queue->ids, queue->n * sizeof *ids);
  }
  free(queue->ids);
  queue->ids = ids;
  queue->capacity = capacity;
}

static void push(el_wake *wake, uint64_t id) {
  el_wake_queue *queue = EL_CONTAINER_OF(wake, el_wake_queue, wake);
  pthread_mutex_lock(&queue->mu);
  if (queue->n == queue->capacity) {
    grow(queue);
  }
  queue->ids[queue->n++] = id;
  if (queue->n == 1) {
    eventfd_write(queue->fd, 1);
  }
  pthread_mutex_unlock(&queue->mu);
}

el_wake_queue *el_wake_queue_new(void) {
  el_wake_queue *queue = calloc(1, sizeof *queue);
  if (queue == NULL) return NULL;
  queue->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (queue->fd < 0) {
    free(queue);
    return NULL;
  }
  pthread_mutex_init(&queue->mu, NULL);
  queue->wake.push = push;
  return queue;
}

void el_wake_queue_free(el_wake_queue *queue) {
  if (queue == NULL) return;
  el_wake_queue_close_fd(queue);
  pthread_mutex_destroy(&queue->mu);
  free(queue->ids);
  free(queue);
}

el_wake *el_wake_queue_wake(el_wake_queue *queue) { return &queue->wake; }

int el_wake_queue_fd(const el_wake_queue *queue) { return queue->fd; }

void el_wake_queue_close_fd(el_wake_queue *queue) {
  if (queue->fd < 0) return;
  close(queue->fd);
  queue->fd = -1;
}

size_t el_wake_queue_take(el_wake_queue *queue, uint64_t *ids, size_t max) {
  size_t n;
  eventfd_t count;
  pthread_mutex_lock(&queue->mu);
  n = queue->n < max ? queue->n : max;
  if (n > 0) {
    memcpy(ids, queue->ids, n * sizeof *ids);
    memmove(queue->ids, queue->ids + n, (queue->n - n) * sizeof *ids);
    queue->n -= n;
  }
  if (queue->n == 0 && queue->fd >= 0) {
    eventfd_read(queue->fd, &count);
  }
  pthread_mutex_unlock(&queue->mu);
  return n;
}
