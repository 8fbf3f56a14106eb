/* fuzz: the functions that the fuzz targets share. They split an input into parts, and replace the
 * network: calls and streams get these parts as answers. Each target is a program of one file,
 * which includes this header.
 *
 * A target aborts if an input causes something that must not happen. The sanitizers find the other
 * defects. */
#ifndef ETCDLOCK_SPEC_FUZZ_H
#define ETCDLOCK_SPEC_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/times.h"
#include "net/call.h"
#include "net/channel.h"
#include "net/stream.h"

#define FUZZ_CHECK(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      abort(); \
    } \
  } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the input ---- */

typedef struct fuzz_input {
  const uint8_t *at;
  size_t left;
} fuzz_input;

/* Returns the next byte modulo |bound|; 0 at the end of the input. */
static inline unsigned fuzz_number(fuzz_input *in, unsigned bound) {
  if (in->left == 0) return 0;
  in->left--;
  return *in->at++ % bound;
}

/* Returns the next part of the input. A part starts with its length in two bytes, the lower byte
 * first. If the input is shorter, the part is the rest of the input. The caller frees the part,
 * which has memory of its own, so that the sanitizer detects a read behind its end. */
static inline el_bytes fuzz_part(fuzz_input *in) {
  size_t len = fuzz_number(in, 256);
  char *copy;
  len += 256 * (size_t)fuzz_number(in, 256);
  if (len > in->left) len = in->left;
  copy = malloc(len > 0 ? len : 1);
  if (len > 0) memcpy(copy, in->at, len);
  in->at += len;
  in->left -= len;
  return (el_bytes){copy, len};
}

/* Returns the rest of the input as a string; a NUL byte ends the string early. The caller frees
 * it. */
static inline char *fuzz_text(fuzz_input *in) {
  char *text = malloc(in->left + 1);
  if (in->left > 0) memcpy(text, in->at, in->left);
  text[in->left] = '\0';
  in->left = 0;
  return text;
}

/* ---- properties ---- */

/* Checks that |text|, part of a message, is one line without control characters. */
static inline void fuzz_check_line(const char *text) {
  for (; *text != '\0'; text++) {
    FUZZ_CHECK((unsigned char)*text >= ' ' && *text != 0x7f);
  }
}

/* Checks that |err| has a code and a text of one line. */
static inline void fuzz_check_error(const el_error *err) {
  FUZZ_CHECK(err->code != EL_OK);
  FUZZ_CHECK(err->text[0] != '\0');
  fuzz_check_line(err->text);
}

/* ---- the network ---- */

enum { FUZZ_CALLS_MAX = 4, FUZZ_STREAMS_MAX = 64 };

struct el_channel {
  char *token;
};

struct el_stream {
  el_stream_events events;
  void *arg;
  bool is_closed;
};

static struct el_channel fuzz_channel;
/* Unary calls in flight, the oldest first. Then all streams of this run. */
static struct {
  el_call_done done;
  void *arg;
} fuzz_calls[FUZZ_CALLS_MAX];
static size_t fuzz_n_calls;
static el_stream fuzz_streams[FUZZ_STREAMS_MAX];
static size_t fuzz_n_streams;

/* Answers the oldest call in flight with |bytes|. Returns false if no call is in flight. */
static inline bool fuzz_answer(el_bytes bytes) {
  el_call_answer answer = {.from = "fuzz:2379",
                           .bytes = (const uint8_t *)bytes.data,
                           .len = bytes.len};
  el_call_done done = fuzz_calls[0].done;
  void *arg = fuzz_calls[0].arg;
  if (fuzz_n_calls == 0) return false;
  memmove(fuzz_calls, fuzz_calls + 1, --fuzz_n_calls * sizeof *fuzz_calls);
  done(arg, &answer);
  return true;
}

/* Sends |bytes| to the client on the stream that was opened |n| streams before the last one.
 * Returns false if that stream is not open. */
static inline bool fuzz_send(size_t n, el_bytes bytes) {
  el_stream *st;
  if (n >= fuzz_n_streams) return false;
  st = &fuzz_streams[fuzz_n_streams - 1 - n];
  if (st->is_closed) return false;
  st->events.on_message(st->arg, (const uint8_t *)bytes.data, bytes.len);
  return true;
}

static inline void fuzz_reset(void) {
  el_channel_set_token(&fuzz_channel, NULL);
  fuzz_n_calls = fuzz_n_streams = 0;
}

void el_call_start(el_channel *ch, const el_call_request *request,
                   el_call_done done, void *arg) {
  (void)ch, (void)request;
  FUZZ_CHECK(fuzz_n_calls < FUZZ_CALLS_MAX);
  fuzz_calls[fuzz_n_calls].done = done;
  fuzz_calls[fuzz_n_calls++].arg = arg;
}

el_stream *el_stream_open(el_channel *ch, const char *method,
                          const el_stream_events *events, void *arg) {
  el_stream *st = &fuzz_streams[fuzz_n_streams++];
  (void)ch, (void)method;
  FUZZ_CHECK(fuzz_n_streams <= FUZZ_STREAMS_MAX);
  *st = (el_stream){*events, arg, false};
  return st;
}

void el_stream_send(el_stream *st, const uint8_t *bytes, size_t len) {
  FUZZ_CHECK(!st->is_closed);
  (void)bytes, (void)len;
}

void el_stream_close(el_stream *st) {
  FUZZ_CHECK(!st->is_closed);
  st->is_closed = true;
}

void el_stream_await_answer(el_stream *st) { FUZZ_CHECK(!st->is_closed); }

bool el_stream_is_refused(const el_stream *st) {
  (void)st;
  return false;
}

const char *el_stream_address(const el_stream *st) {
  (void)st;
  return "fuzz:2379";
}

void el_channel_add_listener(el_channel *ch, el_failover_listener *move) {
  (void)ch, (void)move;
}

bool el_channel_await_diagnosis(el_channel *ch, size_t member,
                                el_diagnosis_wait *wait) {
  (void)ch, (void)member, (void)wait;
  return false;
}

size_t el_channel_member(const el_channel *ch) {
  (void)ch;
  return 0;
}

const char *el_channel_address(const el_channel *ch, size_t member) {
  (void)ch, (void)member;
  return "fuzz:2379";
}

void el_channel_note_answer(el_channel *ch, size_t member, int64_t took_ms) {
  (void)ch, (void)member, (void)took_ms;
}

void el_channel_leave(el_channel *ch, size_t member, const el_error *cause) {
  (void)ch, (void)member, (void)cause;
}

const char *el_channel_token(const el_channel *ch) { return ch->token; }

bool el_channel_client_name(const el_channel *ch, char *to, int size) {
  (void)ch, (void)to, (void)size;
  return false;
}

size_t el_channel_count(const el_channel *ch) {
  (void)ch;
  return 1;
}

int64_t el_channel_attempt_ms(const el_channel *ch) {
  (void)ch;
  return EL_CALL_MS;
}

int64_t el_channel_connecting_ms(const el_channel *ch) {
  (void)ch;
  return 0;
}

bool el_channel_is_healthy(const el_channel *ch) {
  (void)ch;
  return true;
}

void el_channel_set_token(el_channel *ch, const char *token) {
  free(ch->token);
  ch->token = token != NULL ? strdup(token) : NULL;
}

#endif
