/* Fuzz target watch: messages of a watch stream. Meanwhile watches start and stop, and the stream
 * is closed and opened again. */
#include "fuzz.h"

#include "base/clock.h"
#include "base/timer.h"
#include "etcd/watch.h"

enum { WATCHES = 3, MINUTE_MS = 60000 };

static el_watch watches[WATCHES];
static bool is_started[WATCHES];
static el_watches *all;
static fuzz_input *input;

static void start(size_t i) {
  static const el_bytes keys[WATCHES] = {{"a/1", 3}, {"b/", 2}, {"c", 1}};
  if (is_started[i]) return;
  is_started[i] = true;
  if (i == 1) {
    el_watch_start_prefix(all, &watches[i], keys[i]);
  } else {
    el_watch_start(all, &watches[i], keys[i]);
  }
}

static void stop(size_t i) {
  el_watch_stop(all, &watches[i]);
  is_started[i] = false;
}

/* Starts a watch, stops one, or neither, as the input says, in an event. Entries do this, too. */
static void on_event(el_watch *watch, const el_watch_event *event) {
  size_t i = (size_t)(watch - watches);
  FUZZ_CHECK(is_started[i]);
  switch (event->kind) {
    case EL_WATCH_CREATED:
      break;
    case EL_WATCH_DELETED:
    case EL_WATCH_PUT:
      free(el_bytes_copy(event->key)); /* reads all its bytes */
      break;
    case EL_WATCH_REFUSED:
      fuzz_check_error(&event->err);
      is_started[i] = false;
      break;
  }
  switch (fuzz_number(input, 8)) {
    case 0:
      stop(fuzz_number(input, WATCHES));
      break;
    case 1:
      start(fuzz_number(input, WATCHES));
      break;
    default:
      break;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input in = {data, size};
  el_timers timers = {0};
  el_auth *auth =
      el_auth_new(&fuzz_channel, &timers, NULL, NULL, NULL, NULL, NULL);
  input = &in;
  all = el_watches_new(auth, &timers);
  for (size_t i = 0; i < WATCHES; i++) {
    watches[i] = (el_watch){.on_event = on_event};
    is_started[i] = false;
  }
  start(0);
  start(1);
  while (in.left > 0 && fuzz_n_streams < FUZZ_STREAMS_MAX) {
    el_bytes message = fuzz_part(&in);
    if (!fuzz_send(0, message)) {
      /* the stream is opened again */
      el_timers_run(&timers, el_now_ms() + MINUTE_MS);
    }
    el_bytes_free(message);
  }
  for (size_t i = 0; i < WATCHES; i++) {
    stop(i);
  }
  el_watches_free(all);
  el_auth_free(auth);
  el_timers_destroy(&timers);
  fuzz_reset();
  return 0;
}
