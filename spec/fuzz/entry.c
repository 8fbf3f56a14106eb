/* Fuzz target entry: the entry of a lock, with arbitrary answers and watch events of a server. */
#include "fuzz.h"

#include "base/timer.h"
#include "etcd/kv.h"
#include "protocol/lock_txn.h"

enum { STEPS_MAX = 200, MODES = EL_MODE_MULTI + 1 };

static const int64_t LEASE = 0x1234;

static el_auth *auth;
static fuzz_input *input;
static el_keys keys;
static el_entry entry;
static el_entry_event next; /* the next event of the entry */
static bool has_next;
static int64_t now_ms;
static el_entry_action sent; /* the request in flight */

static void on_answer(void *arg, el_txn_answer *answer) {
  (void)arg;
  el_lock_txn_read(&keys, &sent, answer, &next);
  next.proven_rev = fuzz_number(input, 2) == 0 ? 0 : answer->rev;
  has_next = true;
  el_txn_answer_free(answer);
}

static void send_request(const el_entry_action *action) {
  static el_lock_txn built;
  bool is_multi = keys.next != NULL;
  el_packed_txn packed;
  el_bytes bytes = fuzz_part(input);
  sent = *action;
  el_lock_txn_build(&built, &keys, action, entry.rev,
                    (el_bytes){is_multi ? "x\0y" : "x", is_multi ? 3 : 1});
  el_kv_pack(&packed, &built.txn);
  el_kv_send(auth, &packed, 1000, on_answer, NULL);
  fuzz_answer(bytes);
  el_packed_txn_free(&packed);
  el_bytes_free(bytes);
}

static void carry_out(const el_entry_actions *actions) {
  has_next = false;
  for (int i = 0; i < actions->n; i++) {
    const el_entry_action *action = &actions->list[i];
    if (action->kind == EL_ENTRY_SEND_REQUEST) {
      send_request(action);
    } else if (action->kind == EL_ENTRY_REPORT_GRANTED) {
      FUZZ_CHECK(action->key.rev > 0); /* the token */
    } else if (action->kind == EL_ENTRY_CONFIRM_LEASE && !has_next) {
      next = (el_entry_event){.kind = EL_ENTRY_ON_LEASE_CONFIRMED};
      has_next = true;
    } else if (action->kind == EL_ENTRY_REPORT_PROOF && !has_next) {
      next = (el_entry_event){.kind = EL_ENTRY_ON_LEASE_PROVEN};
      has_next = true;
    }
  }
}

/* Returns an event, chosen by the input, that is not an answer. */
static el_entry_event choose(void) {
  el_entry_event event = {.rev = (int64_t)fuzz_number(input, 16),
                          .lease = fuzz_number(input, 2) ? LEASE : 0,
                          .is_detached = fuzz_number(input, 2) == 1};
  static const int kinds[] = {
      EL_ENTRY_ON_RELEASE,        EL_ENTRY_ON_WATCH_CREATED,
      EL_ENTRY_ON_WATCH_DELETED,  EL_ENTRY_ON_WATCH_PUT,
      EL_ENTRY_ON_WATCH_REFUSED,  EL_ENTRY_ON_LEASE_PROVEN,
      EL_ENTRY_ON_LEASE_UNPROVEN, EL_ENTRY_ON_EXPIRED,
      EL_ENTRY_ON_MAX_HOLD,       EL_ENTRY_ON_HANDED_OFF,
      EL_ENTRY_ON_KEY_GONE,       EL_ENTRY_ON_KEY_FOUND,
      EL_ENTRY_ON_SESSION_ENDED,  EL_ENTRY_ON_TIMER,
      EL_ENTRY_ON_ACQUIRE,        EL_ENTRY_ON_TRY,
  };
  event.kind = kinds[fuzz_number(input, sizeof kinds / sizeof *kinds)];
  if (event.kind == EL_ENTRY_ON_SESSION_ENDED) {
    event.session_end =
        (el_session_end)fuzz_number(input, EL_SESSION_END_LEFT_TO_EXPIRE + 1);
  }
  if ((event.kind == EL_ENTRY_ON_ACQUIRE || event.kind == EL_ENTRY_ON_TRY) &&
      !el_entry_can_start(&entry)) {
    event.kind = EL_ENTRY_ON_TIMER;
  }
  return event;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char names[] = "a\0a/b\0c";
  fuzz_input in = {data, size};
  el_timers timers = {0};
  el_entry_actions actions;
  el_session session;
  el_queue_key queue_key = {.lease = LEASE,
                            .mode = (el_mode)fuzz_number(&in, MODES)};
  bool is_multi = queue_key.mode == EL_MODE_MULTI;
  input = &in;
  now_ms = 1;
  auth = el_auth_new(&fuzz_channel, &timers, NULL, NULL, NULL);
  if (is_multi) queue_key.slot = 1;
  if (queue_key.mode == EL_MODE_PERMIT) queue_key.permits = 2;
  el_keys_init(&keys, (el_bytes){names, is_multi ? sizeof names - 1 : 1},
               &queue_key);
  el_session_init(&session, 5000, fuzz_number(&in, 2) * 2000, 0, 1);
  session.id = LEASE;
  session.ttl_ms = 5000;
  el_entry_init(&entry, queue_key.mode, &session);
  has_next = false;
  for (int i = 0; i < STEPS_MAX && (in.left > 0 || has_next); i++) {
    el_entry_event event = has_next ? next : choose();
    now_ms += fuzz_number(&in, 256) * 10;
    el_entry_step(&entry, &event, now_ms, &actions);
    carry_out(&actions);
  }
  el_keys_destroy(&keys);
  el_auth_free(auth);
  fuzz_reset();
  return 0;
}
