/* wake_server: ends waits through a unix-domain socket. */
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
#include "base/times.h"

enum { ID_DIGITS = 16, EVENTS_MAX = 64 };

typedef struct connection connection;

/* A wait between el_wake_server_begin_wait and its end. If it has a connection, the entry remains
 * for the next wait on the connection. */
typedef struct wait_entry {
  uint64_t id; /* hash key */
  /* the connection over which |id| was received; NULL: not received yet */
  connection *conn;
  bool is_awaiting_answer; /* |id| received or byte requested; none sent yet */
  bool is_pushed;          /* |id| was pushed; no byte was sent for it yet */
  void **bound;            /* array of the bound objects */
  size_t n_bound;
  UT_hash_handle hh;
} wait_entry;

/* The server's end of a connection. */
struct connection {
  int fd;
  char received[ID_DIGITS]; /* the part of an id that was read */
  size_t n_received;
  /* the wait to which the connection belongs; NULL: none */
  wait_entry *waiting;
  LIST_ENTRY(connection) link;
};

struct el_wake_server {
  /* Constant while the thread runs. */
  el_wake wake;
  el_wake_socket socket;
  el_wake_on_disconnect on_disconnect;
  int epoll_fd; /* polled by the thread: new and ended connections, stop_fd */
  int stop_fd;  /* an eventfd */
  pthread_t thread;

  /* Used by the server's thread only. */
  int spare_fd; /* see refuse_connection; -1: none */

  /* guards the rest and all it points to; no other mutex is locked under it */
  pthread_mutex_t mu;
  int receive_fd; /* an epoll set: connections with bytes to receive */
  LIST_HEAD(, connection) connections;
  wait_entry *waits; /* hash table by id */
};

/* ---- waits ---- */

/* Called under server->mu. */
static wait_entry *find(el_wake_server *server, uint64_t id) {
  wait_entry *entry = NULL;
  HASH_FIND(hh, server->waits, &id, sizeof id, entry);
  return entry;
}

/* Ends the wait |entry|, which the caller frees. Called under server->mu. */
static void remove_wait(el_wake_server *server, wait_entry *entry) {
  HASH_DEL(server->waits, entry);
  if (entry->conn != NULL) {
    entry->conn->waiting = NULL;
  }
}

static void free_wait(wait_entry *entry) {
  free(entry->bound);
  free(entry);
}

void el_wake_server_begin_wait(el_wake_server *server, uint64_t id) {
  wait_entry *entry = el_alloc(sizeof *entry);
  entry->id = id;
  pthread_mutex_lock(&server->mu);
  HASH_ADD(hh, server->waits, id, sizeof entry->id, entry);
  pthread_mutex_unlock(&server->mu);
}

static size_t index_of(const wait_entry *entry, const void *arg) {
  size_t i = 0;
  while (i < entry->n_bound && entry->bound[i] != arg) {
    i++;
  }
  return i;
}

static void add_bound(wait_entry *entry, void *arg) {
  entry->bound =
      el_realloc(entry->bound, (entry->n_bound + 1) * sizeof *entry->bound);
  entry->bound[entry->n_bound++] = arg;
}

bool el_wake_server_bind(el_wake_server *server, uint64_t id, void *arg) {
  wait_entry *entry;
  bool is_new;
  pthread_mutex_lock(&server->mu);
  entry = find(server, id);
  is_new = entry != NULL && index_of(entry, arg) == entry->n_bound;
  if (is_new) add_bound(entry, arg);
  pthread_mutex_unlock(&server->mu);
  return is_new;
}

/* Ends the wait |entry|, to which no object is bound any more. The entry of a connection remains
 * for its next wait. Returns whether the id of the wait was received and no byte was sent for it.
 * Called under server->mu. */
static bool end_wait(el_wake_server *server, wait_entry *entry) {
  bool is_unanswered = entry->is_awaiting_answer;
  entry->is_awaiting_answer = entry->is_pushed = false;
  if (entry->conn == NULL) {
    remove_wait(server, entry);
    free_wait(entry);
  }
  return is_unanswered;
}

bool el_wake_server_unbind(el_wake_server *server, uint64_t id, const void *arg,
                           bool *is_unanswered) {
  wait_entry *entry;
  bool was_bound = false;
  *is_unanswered = false;
  pthread_mutex_lock(&server->mu);
  entry = find(server, id);
  if (entry != NULL) {
    size_t i = index_of(entry, arg);
    was_bound = i < entry->n_bound;
    if (was_bound) entry->bound[i] = entry->bound[--entry->n_bound];
    if (entry->n_bound == 0) *is_unanswered = end_wait(server, entry);
  }
  pthread_mutex_unlock(&server->mu);
  return was_bound;
}

bool el_wake_server_merge(el_wake_server *server, uint64_t from, uint64_t into,
                          bool *is_unanswered) {
  wait_entry *source, *target;
  bool may_merge;
  *is_unanswered = false;
  pthread_mutex_lock(&server->mu);
  source = find(server, from);
  target = find(server, into);
  may_merge = source != NULL && target != NULL;
  if (may_merge) {
    for (size_t i = 0; i < source->n_bound; i++) {
      add_bound(target, source->bound[i]);
    }
    source->n_bound = 0;
    *is_unanswered = end_wait(server, source);
  }
  pthread_mutex_unlock(&server->mu);
  return may_merge;
}

bool el_wake_server_end_wait(el_wake_server *server, uint64_t id,
                             void (*unbound)(void *arg)) {
  wait_entry *entry;
  bool is_unanswered = false;
  pthread_mutex_lock(&server->mu);
  entry = find(server, id);
  if (entry != NULL) {
    for (size_t i = 0; i < entry->n_bound; i++) {
      unbound(entry->bound[i]);
    }
    entry->n_bound = 0;
    is_unanswered = end_wait(server, entry);
  }
  pthread_mutex_unlock(&server->mu);
  return is_unanswered;
}

/* The socket's buffer never holds more than a few bytes, so send never fails because the buffer is
 * full. */
static void send_byte(const connection *conn) {
  (void)!send(conn->fd, "\n", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Sends the byte of |entry| if it is awaited and the id was pushed. Each received id, and each
 * request for a byte, gets at most one byte, so a connection can serve another wait when the host
 * has read these bytes. Called under server->mu. */
static void answer(wait_entry *entry) {
  if (!entry->is_awaiting_answer || !entry->is_pushed) return;
  entry->is_awaiting_answer = entry->is_pushed = false;
  send_byte(entry->conn);
}

void el_wake_server_request_byte(el_wake_server *server, uint64_t id) {
  wait_entry *entry;
  pthread_mutex_lock(&server->mu);
  entry = find(server, id);
  if (entry != NULL && entry->conn != NULL) {
    entry->is_awaiting_answer = true;
    answer(entry);
  }
  pthread_mutex_unlock(&server->mu);
}

/* el_wake.push: runs on any thread. */
static void push(el_wake *wake, uint64_t id) {
  el_wake_server *server = EL_CONTAINER_OF(wake, el_wake_server, wake);
  wait_entry *entry;
  pthread_mutex_lock(&server->mu);
  entry = find(server, id);
  if (entry != NULL) {
    entry->is_pushed = true;
    answer(entry);
  }
  pthread_mutex_unlock(&server->mu);
}

/* Ends the wait of |conn| and returns it; NULL: |conn| belongs to no wait. The caller passes the
 * wait to abandon after it has unlocked the mutex. Called under server->mu. */
static wait_entry *remove_wait_of(el_wake_server *server, connection *conn) {
  wait_entry *entry = conn->waiting;
  if (entry != NULL) {
    remove_wait(server, entry);
  }
  return entry;
}

/* Calls on_disconnect for each object that is bound to |entry|, a removed wait whose connection has
 * ended, and frees |entry|. NULL is ignored. Called without the mutex, because on_disconnect may
 * lock other mutexes. */
static void abandon(const el_wake_server *server, wait_entry *entry) {
  if (entry == NULL) return;
  for (size_t i = 0; i < entry->n_bound; i++) {
    server->on_disconnect(entry->bound[i]);
  }
  free_wait(entry);
}

/* ---- received ids ---- */

static uint64_t parse_id(const char *hex) {
  char digits[ID_DIGITS + 1];
  memcpy(digits, hex, ID_DIGITS);
  digits[ID_DIGITS] = '\0';
  return strtoull(digits, NULL, 16);
}

/* Makes |conn| the connection of the wait whose id it has received. That may be the wait to which
 * it belongs already. If the wait has ended, or has another connection, the byte is sent at once.
 * If |conn| belonged to another wait before, that wait ends and is returned for abandon. Called
 * under server->mu. */
static wait_entry *attach(el_wake_server *server, connection *conn) {
  wait_entry *entry = find(server, parse_id(conn->received)), *earlier = NULL;
  if (conn->waiting != entry) {
    earlier = remove_wait_of(server, conn);
  }
  if (entry == NULL || (entry->conn != NULL && entry->conn != conn)) {
    send_byte(conn);
  } else {
    entry->conn = conn;
    conn->waiting = entry;
    entry->is_awaiting_answer = true;
    answer(entry);
  }
  return earlier;
}

/* Reads from |conn|, at most to the end of an id. Returns the result of attach; NULL if the id is
 * incomplete. Called under server->mu. */
static wait_entry *receive_from(el_wake_server *server, connection *conn) {
  ssize_t n = recv(conn->fd, conn->received + conn->n_received,
                   ID_DIGITS - conn->n_received, MSG_DONTWAIT);
  if (n > 0) {
    conn->n_received += (size_t)n;
  } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    /* The connection has ended or is broken. After shutdown the thread's epoll set reports the end
     * of the connection, and the thread closes it. */
    shutdown(conn->fd, SHUT_RDWR);
    epoll_ctl(server->receive_fd, EPOLL_CTL_DEL, conn->fd, NULL);
  }
  if (conn->n_received < ID_DIGITS) return NULL;
  conn->n_received = 0;
  return attach(server, conn);
}

/* Receives from one connection. Returns false if no connection has bytes to receive. It polls under
 * the mutex, because close_connection removes a connection from the set and frees it under the same
 * mutex. */
static bool receive_some(el_wake_server *server) {
  struct epoll_event event;
  wait_entry *earlier = NULL;
  bool is_ready;
  pthread_mutex_lock(&server->mu);
  is_ready = epoll_wait(server->receive_fd, &event, 1, 0) == 1;
  if (is_ready) {
    earlier = receive_from(server, event.data.ptr);
  }
  pthread_mutex_unlock(&server->mu);
  abandon(server, earlier);
  return is_ready;
}

void el_wake_server_receive(el_wake_server *server) {
  while (receive_some(server)) {
  }
}

/* ---- connections, on the server's thread ---- */

static void close_connection(el_wake_server *server, connection *conn) {
  wait_entry *entry;
  pthread_mutex_lock(&server->mu);
  entry = remove_wait_of(server, conn);
  LIST_REMOVE(conn, link);
  /* close alone is not enough if a child process that was just forked has a copy of the descriptor:
   * the epoll sets would go on reporting the connection, and the host would not see that it has
   * ended. */
  epoll_ctl(server->receive_fd, EPOLL_CTL_DEL, conn->fd, NULL);
  epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
  shutdown(conn->fd, SHUT_RDWR);
  close(conn->fd);
  free(conn);
  pthread_mutex_unlock(&server->mu);
  abandon(server, entry);
}

static bool is_from_this_process(int fd) {
  struct ucred peer;
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.pid == getpid();
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
  return accept4(server->socket.listen_fd, NULL, NULL,
                 SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* Called when no descriptor is free. It uses the spare descriptor to accept a connection and close
 * it, so that the host fails at once instead of waiting for the greeting. */
static void refuse_connection(el_wake_server *server) {
  if (server->spare_fd >= 0) {
    close(server->spare_fd);
    close_fd(accept_fd(server));
  }
  server->spare_fd = open_spare();
  if (server->spare_fd < 0) {
    /* Another thread took the descriptor. The listening socket stays readable, so without a pause
     * the thread would spin. */
    usleep(EL_DESCRIPTOR_PAUSE_US);
  }
}

static void accept_connection(el_wake_server *server) {
  int fd = accept_fd(server);
  bool is_polled;
  connection *conn;
  if (fd < 0) {
    if (errno == EMFILE || errno == ENFILE) refuse_connection(server);
    return;
  }
  if (!is_from_this_process(fd)) {
    close(fd);
    return;
  }
  conn = el_alloc(sizeof *conn);
  conn->fd = fd;
  pthread_mutex_lock(&server->mu);
  LIST_INSERT_HEAD(&server->connections, conn, link);
  is_polled = poll_fd(server->receive_fd, fd, EPOLLIN, conn) &&
              poll_fd(server->epoll_fd, fd, EPOLLRDHUP, conn);
  if (is_polled) {
    send_byte(conn); /* the greeting */
  }
  pthread_mutex_unlock(&server->mu);
  if (!is_polled) {
    close_connection(server, conn);
  }
}

/* ---- the thread ---- */

static void *serve(void *arg) {
  el_wake_server *server = arg;
  struct epoll_event events[EVENTS_MAX];
  bool is_stopping = false;
  pthread_setname_np(pthread_self(), "etcdlock-wake");
  while (!is_stopping) {
    int n = epoll_wait(server->epoll_fd, events, EVENTS_MAX, -1);
    for (int i = 0; i < n; i++) {
      void *tag = events[i].data.ptr;
      if (tag == &server->stop_fd) {
        is_stopping = true;
      } else if (tag == &server->socket.listen_fd) {
        accept_connection(server);
        /* The host's own call may have come before the accept, and so have missed the id. */
        el_wake_server_receive(server);
      } else {
        /* Receive first, because an id that was sent just before the connection ended decides which
         * wait ends with the connection. */
        el_wake_server_receive(server);
        close_connection(server, tag);
      }
    }
  }
  return NULL;
}

/* ---- start and stop ---- */

static void close_all(el_wake_server *server) {
  el_wake_socket_close(&server->socket);
  close_fd(server->spare_fd);
  close_fd(server->epoll_fd);
  close_fd(server->receive_fd);
  close_fd(server->stop_fd);
}

static bool start_thread(el_wake_server *server, el_error *err) {
  int rc = 0;
  server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  server->receive_fd = epoll_create1(EPOLL_CLOEXEC);
  server->stop_fd = eventfd(0, EFD_CLOEXEC);
  server->spare_fd = open_spare();
  if (server->epoll_fd >= 0 && server->receive_fd >= 0 &&
      server->stop_fd >= 0 &&
      poll_fd(server->epoll_fd, server->socket.listen_fd, EPOLLIN,
              &server->socket.listen_fd) &&
      poll_fd(server->epoll_fd, server->stop_fd, EPOLLIN, &server->stop_fd) &&
      (rc = el_thread_start(&server->thread, serve, server)) == 0) {
    return true;
  }
  el_error_set(err, EL_NOMEM,
               "cannot start the thread of the wake-up socket: %s",
               el_errno_text(rc != 0 ? rc : errno));
  return false;
}

el_wake_server *el_wake_server_start(const char *dir,
                                     el_wake_on_disconnect on_disconnect,
                                     el_error *err) {
  el_wake_server *server = el_alloc(sizeof *server);
  server->on_disconnect = on_disconnect;
  server->wake.push = push;
  server->epoll_fd = server->receive_fd = -1;
  server->stop_fd = server->spare_fd = -1;
  server->socket.listen_fd = server->socket.path_fd = -1;
  pthread_mutex_init(&server->mu, NULL);
  LIST_INIT(&server->connections);
  if (el_wake_socket_open(&server->socket, dir, err) &&
      start_thread(server, err)) {
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

/* Ends one of the waits and returns it for abandon; NULL: no wait is left. */
static wait_entry *remove_any_wait(el_wake_server *server) {
  wait_entry *entry;
  pthread_mutex_lock(&server->mu);
  entry = server->waits;
  if (entry != NULL) {
    remove_wait(server, entry);
  }
  pthread_mutex_unlock(&server->mu);
  return entry;
}

void el_wake_server_disconnect(el_wake_server *server) {
  connection *conn;
  wait_entry *entry;
  while ((conn = LIST_FIRST(&server->connections)) != NULL) {
    close_connection(server, conn);
  }
  while ((entry = remove_any_wait(server)) != NULL) {
    abandon(server, entry);
  }
  close_all(server);
}

void el_wake_server_free(el_wake_server *server) {
  if (server == NULL) return;
  pthread_mutex_destroy(&server->mu);
  free(server);
}

el_wake *el_wake_server_wake(el_wake_server *server) { return &server->wake; }

const el_wake_socket *el_wake_server_socket(const el_wake_server *server) {
  return &server->socket;
}
