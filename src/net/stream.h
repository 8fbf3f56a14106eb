/* stream: one bidirectional call, messages both ways until it ends. */
#ifndef ETCDLOCK_NET_STREAM_H
#define ETCDLOCK_NET_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "net/channel.h"

typedef struct el_stream el_stream;

typedef struct el_stream_events {
  /* A message; |bytes| is valid during the call. */
  void (*on_message)(void *arg, const uint8_t *bytes, size_t len);
  /* The stream ended, for |err|. Last call; the stream frees itself. */
  void (*on_ended)(void *arg, const el_error *err);
} el_stream_events;

/* Opens |method| on |ch|. Events come later, on the I/O thread, never from
 * within a call of this module. @thread io */
el_stream *el_stream_open(el_channel *ch, const char *method,
                          const el_stream_events *events, void *arg);

/* Sends one message; the bytes are copied, order is kept. @thread io */
void el_stream_send(el_stream *st, const uint8_t *bytes, size_t len);

/* Cancels the stream: no event comes any more, and it frees itself.
 * @thread io */
void el_stream_close(el_stream *st);

/* The same, and leaves the member as well, because of |why|. @thread io */
void el_stream_leave(el_stream *st, const el_error *why);

/* The member at the other end, for messages. @thread io */
const char *el_stream_address(const el_stream *st);

#endif
