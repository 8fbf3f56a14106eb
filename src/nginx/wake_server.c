/* wake_server: wakes waits through a socket. */
#include "nginx/wake_server.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/container_of.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/thread.h"
#include "nginx/wake_socket.h"

enum { ID_DIGITS = 16, EVENTS_MAX = 64, ROOM_US = 2000 };

typedef struct peer peer;

/* A wait that Lua's side expects. */
typedef struct wait_entry {
  uint64_t id;  /* hash key */
  peer *at;     /* NULL: its connection has not spoken yet */
  bool listens; /* it has, and was not answered yet */
  bool pushed;  /* while it didn't listen */
  void **tied;  /* what ends with the connection, an array */
  size_t n_tied;
  UT_hash_handle hh;
} wait_entry;

/* A connection. */
struct peer {
  int fd;
  char said[ID_DIGITS];
  size_t n_said;
  wait_entry *waiting;
  LIST_ENTRY(peer) link;
};

struct el_wake_server {
  el_wake wake;
  int epoll_fd; /* the thread's: who comes and who goes */
  int stop_fd;
  el_wake_gone gone;
  int spare_fd; /* given up for a moment when there are no others */
  el_wake_socket at;
  pthread_t thread;
  pthread_mutex_t mu; /* guards the rest, with what is in it; a leaf */
  int said_fd;        /* polled for who has said something */
  LIST_HEAD(, peer) peers;
  wait_entry *waits;
};

/* ---- waits ---- */

static wait_entry *find(el_wake_server *server, uint64_t id) {
  wait_entry *entry = NULL;
  HASH_FIND(hh, server->waits, &id, sizeof id, entry);
  return entry;
}

/* Takes |entry| out; the caller frees it. */
static void take_out(el_wake_server *server, wait_entry *entry) {
  HASH_DEL(server->waits, entry);
  if (entry->at != NULL) {
    entry->at->waiting = NULL;
  }
}

static void free_wait(wait_entry *entry) {
  free(entry->tied);
  free(entry);
}

void el_wake_server_expect(el_wake_server *server, uint64_t id) {
  wait_entry *entry = el_alloc(sizeof *entry);
  entry->id = id;
  pthread_mutex_lock(&server->mu);
  HASH_ADD(hh, server->waits, id, sizeof entry->id, entry);
  pthread_mutex_unlock(&server->mu);
}

bool el_wake_server_tie(el_wake_server *server, uint64_t id, void *arg) {
  wait_entry *entry;
  pthread_mutex_lock(&server->mu);
  entry = find(server, id);
  if (entry != NULL) {
    entry->tied =
        el_realloc(entry->tied, (entry->n_tied + 1) * sizeof *entry->tied);
    entry->tied[entry->n_tied++] = arg;
  }
  pthread_mutex_unlock(&server->mu);
  return entry != NULL;
}

bool el_wake_server_untie(el_wake_server *server, uint64_t id,
                          const void *arg) {
  wait_entry *entry;
  size_t i = 0, n;
  pthread_mutex_lock(&server->mu);
  entry = find(server, id);
  n = entry != NULL ? entry->n_tied : 0;
  while (i < n && entry->tied[i] != arg) {
    i++;
  }
  if (i < n) entry->tied[i] = entry->tied[--entry->n_tied];
  pthread_mutex_unlock(&server->mu);
  return i < n;
}

bool el_wake_server_taken(el_wake_server *server, uint64_t id,
                          void (*untied)(void *arg)) {
  wait_entry *entry;
  bool listened = false;
  pthread_mutex_lock(&server->mu);
  entry = find(server, id);
  if (entry != NULL) {
    take_out(server, entry);
    listened = entry->listens;
    for (size_t i = 0; i < entry->n_tied; i++) {
      untied(entry->tied[i]);
    }
    free_wait(entry);
  }
  pthread_mutex_unlock(&server->mu);
  return listened;
}

/* One byte to a socket that holds at most a few can't fall short. */
static void wake_up(const peer *to) {
  (void)!send(to->fd, "\n", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* One byte for each time that the connection has spoken, and no more: then it
 * can be used again by whoever has read them all. */
static void answer(wait_entry *entry) {
  if (!entry->listens || !entry->pushed) return;
  entry->listens = entry->pushed = false;
  wake_up(entry->at);
}

/* On whichever thread: a byte sent from here costs less than having the server's
 * thread send it. */
static void push(el_wake *wake, uint64_t id) {
  el_wake_server *server = EL_CONTAINER_OF(wake, el_wake_server, wake);
  wait_entry *entry;
  pthread_mutex_lock(&server->mu);
  entry = find(server, id);
  if (entry != NULL) {
    entry->pushed = true;
    answer(entry);
  }
  pthread_mutex_unlock(&server->mu);
}

/* Takes out what |one| waits for; for give_up, without the mutex. */
static wait_entry *take_from(el_wake_server *server, peer *one) {
  wait_entry *entry = one->waiting;
  if (entry != NULL) {
    take_out(server, entry);
  }
  return entry;
}

/* The connection of |entry| has ended. */
static void give_up(const el_wake_server *server, wait_entry *entry) {
  if (entry == NULL) return;
  for (size_t i = 0; i < entry->n_tied; i++) {
    server->gone(entry->tied[i]);
  }
  free_wait(entry);
}

/* ---- what connections say ---- */

static uint64_t number_of(const char *hex) {
  char digits[ID_DIGITS + 1];
  memcpy(digits, hex, ID_DIGITS);
  digits[ID_DIGITS] = '\0';
  return strtoull(digits, NULL, 16);
}

/* The connection has said which wait it is for, perhaps once more. One that
 * nobody expects is answered at once: it is over. Returns what it waits for no
 * more, for give_up. */
static wait_entry *attach(el_wake_server *server, peer *one) {
  wait_entry *entry = find(server, number_of(one->said)), *earlier = NULL;
  if (one->waiting != entry) {
    earlier = take_from(server, one);
  }
  if (entry == NULL || (entry->at != NULL && entry->at != one)) {
    wake_up(one);
  } else {
    entry->at = one;
    one->waiting = entry;
    entry->listens = true;
    answer(entry);
  }
  return earlier;
}

/* Reads up to the end of a number. Returns what is waited for no more, for
 * give_up. */
static wait_entry *read_said(el_wake_server *server, peer *one) {
  ssize_t n = recv(one->fd, one->said + one->n_said, ID_DIGITS - one->n_said,
                   MSG_DONTWAIT);
  if (n > 0) {
    one->n_said += (size_t)n;
  } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    /* It has ended, of which the thread is told; or is of no use, and ends. */
    shutdown(one->fd, SHUT_RDWR);
    epoll_ctl(server->said_fd, EPOLL_CTL_DEL, one->fd, NULL);
  }
  if (one->n_said < ID_DIGITS) return NULL;
  one->n_said = 0;
  return attach(server, one);
}

/* Reads a part of what was said; false if all is read. It is polled under the mutex
 * because a connection that is closed leaves the set under it. */
static bool hear_some(el_wake_server *server) {
  struct epoll_event event;
  wait_entry *earlier = NULL;
  bool heard;
  pthread_mutex_lock(&server->mu);
  heard = epoll_wait(server->said_fd, &event, 1, 0) == 1;
  if (heard) {
    earlier = read_said(server, event.data.ptr);
  }
  pthread_mutex_unlock(&server->mu);
  give_up(server, earlier);
  return heard;
}

void el_wake_server_hear(el_wake_server *server) {
  while (hear_some(server)) {
  }
}

/* ---- connections that come and go, on the server's thread ---- */

static void close_peer(el_wake_server *server, peer *one) {
  wait_entry *entry;
  pthread_mutex_lock(&server->mu);
  entry = take_from(server, one);
  LIST_REMOVE(one, link);
  /* A process that was just started may have a copy for a moment, by which epoll
   * would go on to tell of it, and whoever waits would not hear of its end. */
  epoll_ctl(server->said_fd, EPOLL_CTL_DEL, one->fd, NULL);
  epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, one->fd, NULL);
  shutdown(one->fd, SHUT_RDWR);
  close(one->fd);
  free(one);
  pthread_mutex_unlock(&server->mu);
  give_up(server, entry);
}

static bool is_ours(int fd) {
  struct ucred who;
  socklen_t size = sizeof who;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
         who.pid == getpid();
}

static void close_fd(int fd) {
  if (fd >= 0) close(fd);
}

static bool poll_fd(int epoll_fd, int fd, uint32_t events, void *tag) {
  struct epoll_event event = {.events = events, .data.ptr = tag};
  return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static int open_spare(void) { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

static int accept_fd(const el_wake_server *server) {
  return accept4(server->at.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* No descriptor is left for a connection that asks for one. It is ended, so
 * that whoever waits is told at once. */
static void turn_away(el_wake_server *server) {
  if (server->spare_fd >= 0) {
    close(server->spare_fd);
    close_fd(accept_fd(server));
  }
  server->spare_fd = open_spare();
  if (server->spare_fd < 0) {
    usleep(ROOM_US); /* another thread was faster; spinning makes no room */
  }
}

static void accept_one(el_wake_server *server) {
  int fd = accept_fd(server);
  bool is_polled;
  peer *one;
  if (fd < 0) {
    if (errno == EMFILE || errno == ENFILE) turn_away(server);
    return;
  }
  if (!is_ours(fd)) {
    close(fd);
    return;
  }
  one = el_alloc(sizeof *one);
  one->fd = fd;
  pthread_mutex_lock(&server->mu);
  LIST_INSERT_HEAD(&server->peers, one, link);
  is_polled = poll_fd(server->said_fd, fd, EPOLLIN, one) &&
              poll_fd(server->epoll_fd, fd, EPOLLRDHUP, one);
  if (is_polled) {
    wake_up(one); /* a greeting */
  }
  pthread_mutex_unlock(&server->mu);
  if (!is_polled) {
    close_peer(server, one);
  }
}

/* ---- the thread ---- */

static void *serve(void *arg) {
  el_wake_server *server = arg;
  struct epoll_event events[EVENTS_MAX];
  bool stopping = false;
  pthread_setname_np(pthread_self(), "etcdlock-wake");
  while (!stopping) {
    int n = epoll_wait(server->epoll_fd, events, EVENTS_MAX, -1);
    for (int i = 0; i < n; i++) {
      void *tag = events[i].data.ptr;
      if (tag == &server->stop_fd) {
        stopping = true;
      } else if (tag == &server->at.fd) {
        accept_one(server);
        el_wake_server_hear(server); /* what it said until now */
      } else {
        el_wake_server_hear(server); /* what it said at last */
        close_peer(server, tag);
      }
    }
  }
  return NULL;
}

/* ---- life ---- */

static void close_all(el_wake_server *server) {
  el_wake_socket_close(&server->at);
  close_fd(server->spare_fd);
  close_fd(server->epoll_fd);
  close_fd(server->said_fd);
  close_fd(server->stop_fd);
}

static bool start_thread(el_wake_server *server, el_error *err) {
  int rc = 0;
  server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  server->said_fd = epoll_create1(EPOLL_CLOEXEC);
  server->stop_fd = eventfd(0, EFD_CLOEXEC);
  server->spare_fd = open_spare();
  if (server->epoll_fd >= 0 && server->said_fd >= 0 && server->stop_fd >= 0 &&
      poll_fd(server->epoll_fd, server->at.fd, EPOLLIN, &server->at.fd) &&
      poll_fd(server->epoll_fd, server->stop_fd, EPOLLIN, &server->stop_fd) &&
      (rc = el_thread_start(&server->thread, serve, server)) == 0) {
    return true;
  }
  el_error_set(err, EL_NOMEM, "can't serve the wake-up socket: %s",
               el_errno_text(rc != 0 ? rc : errno));
  return false;
}

el_wake_server *el_wake_server_start(const char *dir, el_wake_gone gone,
                                     el_error *err) {
  el_wake_server *server = el_alloc(sizeof *server);
  server->gone = gone;
  server->wake.push = push;
  server->epoll_fd = server->said_fd = -1;
  server->stop_fd = server->spare_fd = -1;
  server->at.fd = server->at.path_fd = -1;
  pthread_mutex_init(&server->mu, NULL);
  LIST_INIT(&server->peers);
  if (el_wake_socket_open(&server->at, dir, err) && start_thread(server, err)) {
    return server;
  }
  close_all(server);
  el_wake_server_free(server);
  return NULL;
}

void el_wake_server_stop(el_wake_server *server) {
  eventfd_write(server->stop_fd, 1);
  pthread_join(server->thread, NULL);
}

/* For give_up; NULL: nothing is expected any more. */
static wait_entry *take_any(el_wake_server *server) {
  wait_entry *entry;
  pthread_mutex_lock(&server->mu);
  entry = server->waits;
  if (entry != NULL) {
    take_out(server, entry);
  }
  pthread_mutex_unlock(&server->mu);
  return entry;
}

void el_wake_server_hang_up(el_wake_server *server) {
  peer *one;
  wait_entry *entry;
  while ((one = LIST_FIRST(&server->peers)) != NULL) {
    close_peer(server, one);
  }
  while ((entry = take_any(server)) != NULL) {
    give_up(server, entry);
  }
  close_all(server);
}

void el_wake_server_free(el_wake_server *server) {
  if (server == NULL) return;
  pthread_mutex_destroy(&server->mu);
  free(server);
}

el_wake *el_wake_server_wake(el_wake_server *server) { return &server->wake; }

const char *el_wake_server_path(const el_wake_server *server) {
  return server->at.path;
}

int el_wake_server_next_fd(const el_wake_server *server) {
  return el_wake_socket_next_fd(&server->at);
}

void el_wake_server_seal(const el_wake_server *server, int next_fd) {
  el_wake_socket_seal(&server->at, next_fd);
}
