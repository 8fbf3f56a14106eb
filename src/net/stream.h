/* stream: one bidirectional call, with messages both ways until it ends. */
#ifndef ETCDLOCK_NET_STREAM_H
#define ETCDLOCK_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/channel.h"

/* el_stream is one stream, until it has ended or is closed. */
typedef struct el_stream el_stream;

/* el_stream_events holds the callbacks of a stream, called in the loop. */
typedef struct el_stream_events {
  /* A message has come. |bytes| is valid during the callback only. */
  void (*on_message)(void *arg, const uint8_t *bytes, size_t len);
  /* The stream has ended because of |err|. This is the last event; the stream frees itself. */
  void (*on_ended)(void *arg, const el_error *err);
} el_stream_events;

/* el_stream_open opens a stream of |method| to the member in use. The callbacks in |events| are
 * called in the loop, never while a caller is in a function of this header. @thread io */
el_stream *el_stream_open(el_channel *ch, const char *method,
                          const el_stream_events *events, void *arg);

/* el_stream_send copies a message and sends it after the messages that were sent before.
 * @thread io */
void el_stream_send(el_stream *st, const uint8_t *bytes, size_t len);

/* el_stream_await_answer makes the health check (net/health.h) watch the stream, which carries
 * keepalives, until the next message comes. @thread io */
void el_stream_await_answer(el_stream *st);

/* el_stream_close cancels the stream. No callback is called any more, and the stream frees itself.
 * @thread io */
void el_stream_close(el_stream *st);

/* el_stream_is_refused tells whether the stream has not begun because the server allows no more on
 * the connection. @thread io */
bool el_stream_is_refused(const el_stream *st);

/* el_stream_address returns the address of the stream's member, for messages. @thread io */
const char *el_stream_address(const el_stream *st);

#endif
