/* dial: one TCP connection with a deadline, for a diagnosis.
 *
 * gRPC has connections of its own. This one is for looking at what a port
 * answers: it blocks, on a thread that may, and remembers the first bytes.
 */
#ifndef ETCDLOCK_TLS_DIAL_H
#define ETCDLOCK_TLS_DIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EL_DIAL_FIRST = 9 }; /* a header of an HTTP/2 frame */

typedef struct el_dial {
  int fd;
  int stop_fd; /* readable: give up */
  int64_t deadline_ms;
  uint8_t first[EL_DIAL_FIRST]; /* what the other end said first */
  size_t n_first;
} el_dial;

/* What the other end speaks, by its first bytes. */
typedef enum el_speech {
  EL_SPEECH_NONE, /* it was silent, or closed without a word */
  EL_SPEECH_TLS,
  EL_SPEECH_HTTP2, /* without TLS */
  EL_SPEECH_OTHER
} el_speech;

/* Connects to the first address of |host| that answers, until |deadline_ms|
 * of el_now_ms, or until |stop_fd| can be read. False if none does; otherwise
 * the caller closes it. @thread any */
bool el_dial_open(el_dial *wire, const char *host, const char *port,
                  int64_t deadline_ms, int stop_fd);

/* Closes. @thread any */
void el_dial_close(el_dial *wire);

/* Sends |len| bytes. Failures show when receiving. @thread any */
void el_dial_send(el_dial *wire, const void *bytes, size_t len);

/* Receives up to |size| bytes and returns how many, at least one; 0 at the
 * end, which may be the deadline. @thread any */
size_t el_dial_recv(el_dial *wire, void *to, size_t size);

/* What has been received so far sounds like this. @thread any */
el_speech el_dial_speech(const el_dial *wire);

#endif
