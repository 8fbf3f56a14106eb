/* call: one unary call, bytes in and bytes out. */
#ifndef ETCDLOCK_NET_CALL_H
#define ETCDLOCK_NET_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/channel.h"

/* What is asked. */
typedef struct el_rpc_request {
  const char *method; /* "/package.Service/Method"; not copied */
  const uint8_t *bytes;
  size_t len;
  int64_t timeout_ms;
  /* Who is asked: 0 is the member in use, else the members count from 1. What one
   * that is chosen answers, or doesn't, says nothing about the one in use; and it is
   * to answer though it has no leader. */
  size_t chosen;
  /* The member may say nothing for so long: a password's hash takes its time, and to
   * give up what isn't asked again gains nothing where there is no other member. */
  bool outlasts_silence;
} el_rpc_request;

/* How a call ended. Valid during the callback only. */
typedef struct el_rpc_answer {
  el_error err;         /* code EL_OK when bytes is the server's message */
  const char *from;     /* the member's address, for messages */
  const uint8_t *bytes; /* NULL unless EL_OK */
  size_t len;
} el_rpc_answer;

typedef void (*el_rpc_done)(void *arg, const el_rpc_answer *answer);

/* Sends |request|, whose bytes are copied, and gives up after its timeout, or
 * when the member has fallen silent. |done| is called exactly once, later, on
 * the I/O thread, whatever happens. @thread io */
void el_rpc_start(el_channel *ch, const el_rpc_request *request,
                  el_rpc_done done, void *arg);

/* el_header_illegal_at returns the position, from 1, of the first byte of |value| that
 * an HTTP header cannot carry at that place; 0: there is none. Legal are printable ASCII
 * characters, and spaces between them. gRPC core refuses a call with another value, and
 * writes that value to standard error: so each token is checked where it comes in.
 * @thread any */
static inline size_t el_header_illegal_at(const char *value) {
  for (size_t i = 0; value[i] != '\0'; i++) {
    bool is_end = i == 0 || value[i + 1] == '\0';
    if (value[i] < (is_end ? '!' : ' ') || value[i] > '~') return i + 1;
  }
  return 0;
}

#endif
