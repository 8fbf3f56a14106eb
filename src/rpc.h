/* L1 rpc: one unary call, bytes in and bytes out. */
#ifndef ETCDLOCK_RPC_H
#define ETCDLOCK_RPC_H

#include <stddef.h>
#include <stdint.h>

#include "channel.h"

/* How a call ended. Valid during the callback only. */
typedef struct el_rpc_answer {
  el_error err;         /* code EL_OK when bytes is the server's message */
  const char *from;     /* the member's address, for messages */
  const uint8_t *bytes; /* NULL unless EL_OK */
  size_t len;
} el_rpc_answer;

typedef void (*el_rpc_done)(void *arg, const el_rpc_answer *answer);

/* Calls |method| with |len| bytes of message, which are copied, and gives up
 * after |timeout_ms|, or when the member has fallen silent, unless it is
 * |thoughtful|: then it may take its time (a password's hash does). |done| is
 * called exactly once, later, on the I/O thread, whatever happens.
 * @thread io */
void el_rpc_start(el_channel *ch, const char *method, const uint8_t *bytes,
                  size_t len, int64_t timeout_ms, bool thoughtful,
                  el_rpc_done done, void *arg);

#endif
