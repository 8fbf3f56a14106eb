/* call: one unary call, bytes in and bytes out. */
#ifndef ETCDLOCK_NET_CALL_H
#define ETCDLOCK_NET_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/channel.h"

/* el_call_request is what el_call_start sends. */
typedef struct el_call_request {
  const char *method; /* "/package.Service/Method", a string literal */
  const uint8_t *bytes;
  size_t len;
  int64_t timeout_ms;
  /* The member that gets the call. 0: the member in use; else 1 + the number of the member. A call
   * to a numbered member needs no leader there. It is left out of the health check, because it may
   * go to a member that is not in use. */
  size_t pinned_member;
  /* true: the health check does not cancel the call. For a call that etcd may answer late (the hash
   * of a password takes time), and for a call whose cancellation gains nothing, because the call is
   * not repeated and there is no other member. */
  bool may_be_slow;
  bool has_no_token; /* no token is sent, even if the channel has one */
} el_call_request;

/* el_call_answer tells how a call ended. It is valid during the callback only. */
typedef struct el_call_answer {
  el_error err;         /* code EL_OK: |bytes| is etcd's message */
  const char *from;     /* the member's address, for messages */
  const uint8_t *bytes; /* NULL unless EL_OK */
  size_t len;
} el_call_answer;

/* el_call_done receives the end of a call. */
typedef void (*el_call_done)(void *arg, const el_call_answer *answer);

/* el_call_start sends |request| and copies its bytes. |done| is called exactly once, after
 * el_call_start has returned, with the answer or with the error that ended the call. The error may
 * be a timeout, or that the health check has cancelled the call. @thread io */
void el_call_start(el_channel *ch, const el_call_request *request,
                   el_call_done done, void *arg);

/* el_header_illegal_at returns the position, counted from 1, of the first byte that makes |value|
 * illegal as an HTTP header. Returns 0 if |value| is legal. Printable ASCII characters are legal; a
 * space is legal except as the first or the last byte. gRPC core refuses a call with an illegal
 * value, and writes the value to standard error. So the code that receives a token checks the token
 * first. (The function is inline, because the fuzz targets replace call.c.) @thread any */
static inline size_t el_header_illegal_at(const char *value) {
  for (size_t i = 0; value[i] != '\0'; i++) {
    bool is_end = i == 0 || value[i + 1] == '\0';
    if (value[i] < (is_end ? '!' : ' ') || value[i] > '~') return i + 1;
  }
  return 0;
}

#endif
