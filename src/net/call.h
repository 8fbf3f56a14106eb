/* call: one unary call, bytes in and bytes out. */
#ifndef ETCDLOCK_NET_CALL_H
#define ETCDLOCK_NET_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/channel.h"

/* el_call_request is what el_call_start sends. */
typedef struct el_call_request {
  const char *method; /* "/package.Service/Method"; not copied */
  const uint8_t *bytes;
  size_t len;
  int64_t timeout_ms;
  /* 0: the call goes to the member in use. n > 0: it goes to member n - 1 only, needs no leader
   * there, and is left out of the health check: its result says nothing about the member in use. */
  size_t pinned_member;
  /* The health check does not cancel the call: etcd may take long (the hash of a password), or
   * nothing is gained because the call is not repeated and there is no other member. */
  bool may_be_slow;
} el_call_request;

/* el_call_answer is the end of a call; valid during the callback only. */
typedef struct el_call_answer {
  el_error err;         /* code EL_OK: |bytes| is etcd's message */
  const char *from;     /* the member's address, for messages */
  const uint8_t *bytes; /* NULL unless EL_OK */
  size_t len;
} el_call_answer;

/* el_call_done receives the end of a call. */
typedef void (*el_call_done)(void *arg, const el_call_answer *answer);

/* el_call_start sends |request|, whose bytes are copied. |done| is called exactly once, after
 * el_call_start has returned: with the answer, after the timeout, or when the health check has
 * cancelled the call. @thread io */
void el_call_start(el_channel *ch, const el_call_request *request,
                   el_call_done done, void *arg);

/* el_header_illegal_at returns the position, from 1, of the first byte of |value| that an HTTP
 * header cannot carry at that position; 0: there is none. Printable ASCII characters are legal, and
 * spaces between them. gRPC core refuses a call with another value and writes that value to
 * standard error, so each token is checked where it is received. (Inline, because the fuzz targets
 * replace call.c.) @thread any */
static inline size_t el_header_illegal_at(const char *value) {
  for (size_t i = 0; value[i] != '\0'; i++) {
    bool is_end = i == 0 || value[i + 1] == '\0';
    if (value[i] < (is_end ? '!' : ' ') || value[i] > '~') return i + 1;
  }
  return 0;
}

#endif
