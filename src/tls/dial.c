/* dial: one TCP connection with a deadline, for a diagnosis. */
#include "tls/dial.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

static bool await(const el_dial *wire, short events, int64_t deadline_ms) {
  struct pollfd entries[] = {{.fd = wire->fd, .events = events},
                             {.fd = wire->stop_fd, .events = POLLIN}};
  for (;;) {
    int64_t left = deadline_ms - el_now_ms();
    int rc = poll(entries, 2, left > 0 ? (int)left : 0);
    if (rc >= 0 || errno != EINTR) return rc > 0 && entries[1].revents == 0;
  }
}

/* ---- connecting ---- */

static bool is_connected(const el_dial *wire, const struct addrinfo *at,
                         int64_t deadline_ms) {
  int failure = 0;
  socklen_t size = sizeof failure;
  if (connect(wire->fd, at->ai_addr, at->ai_addrlen) == 0) return true;
  return errno == EINPROGRESS && await(wire, POLLOUT, deadline_ms) &&
         getsockopt(wire->fd, SOL_SOCKET, SO_ERROR, &failure, &size) == 0 &&
         failure == 0;
}

static void connect_to(el_dial *wire, const struct addrinfo *at,
                       int64_t deadline_ms) {
  wire->fd =
      socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (wire->fd >= 0 && !is_connected(wire, at, deadline_ms)) {
    el_dial_close(wire);
  }
}

static int64_t count(const struct addrinfo *at) {
  int64_t n = 0;
  for (; at != NULL; at = at->ai_next) {
    n++;
  }
  return n;
}

bool el_dial_open(el_dial *wire, const char *host, const char *port,
                  int64_t deadline_ms, int stop_fd) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                           .ai_flags = AI_NUMERICSERV};
  struct addrinfo *list;
  memset(wire, 0, sizeof *wire);
  wire->fd = -1;
  wire->stop_fd = stop_fd;
  wire->deadline_ms = deadline_ms;
  if (getaddrinfo(host, port, &hints, &list) != 0) return false;
  for (struct addrinfo *at = list; at != NULL && wire->fd < 0;
       at = at->ai_next) {
    /* A silent address leaves the others their share of the time. */
    int64_t now = el_now_ms();
    connect_to(wire, at, now + (deadline_ms - now) / count(at));
  }
  freeaddrinfo(list);
  return wire->fd >= 0;
}

void el_dial_close(el_dial *wire) {
  close(wire->fd);
  wire->fd = -1;
}

/* ---- bytes ---- */

void el_dial_send(el_dial *wire, const void *bytes, size_t len) {
  const char *from = bytes;
  while (len > 0 && await(wire, POLLOUT, wire->deadline_ms)) {
    /* The other end may have closed, and this thread may not block SIGPIPE. */
    ssize_t n = send(wire->fd, from, len, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return;
    if (n > 0) {
      from += n;
      len -= (size_t)n;
    }
  }
}

static void remember(el_dial *wire, const void *bytes, size_t len) {
  size_t room = sizeof wire->first - wire->n_first;
  size_t n = len < room ? len : room;
  memcpy(wire->first + wire->n_first, bytes, n);
  wire->n_first += n;
}

size_t el_dial_recv(el_dial *wire, void *to, size_t size) {
  while (await(wire, POLLIN, wire->deadline_ms)) {
    ssize_t n = recv(wire->fd, to, size, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n <= 0) return 0;
    remember(wire, to, (size_t)n);
    return (size_t)n;
  }
  return 0;
}

/* TLS: a record of any kind (20 to 24), version 3.x (RFC 8446, 5.1). HTTP/2:
 * a server starts with a SETTINGS frame (4) on stream 0 (RFC 9113, 3.4). */
el_speech el_dial_speech(const el_dial *wire) {
  static const uint8_t stream_0[4];
  const uint8_t *b = wire->first;
  if (wire->n_first == 0) return EL_SPEECH_NONE;
  if (wire->n_first >= 2 && b[0] >= 20 && b[0] <= 24 && b[1] == 3) {
    return EL_SPEECH_TLS;
  }
  if (wire->n_first == EL_DIAL_FIRST && b[0] == 0 && b[3] == 4 &&
      memcmp(b + 5, stream_0, sizeof stream_0) == 0) {
    return EL_SPEECH_HTTP2;
  }
  return EL_SPEECH_OTHER;
}
