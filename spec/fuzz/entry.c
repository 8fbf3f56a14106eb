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
static el_entry_answer answered; /* the answer to the request in flight */
static bool is_answered;
/* the next signal, if there is no answer */
static el_entry_signal next;
static bool has_next;
static int64_t now_ms;
static el_entry_action sent; /* the request in flight */

static el_bytes value_of_entry(void) {
  return keys.next != NULL ? (el_bytes){"x\0y", 3} : (el_bytes){"x", 1};
}

static void on_answer(void *arg, el_txn_answer *answer) {
  (void)arg;
  el_lock_txn_read(&keys, &sent, entry.rev, value_of_entry(), answer,
                   &answered);
  answered.proven_rev = fuzz_number(input, 2) == 0 ? 0 : answer->rev;
  is_answered = true;
  el_txn_answer_free(answer);
}

static void send_request(const el_entry_action *action) {
  static el_lock_txn built;
  el_packed_txn packed;
  el_bytes bytes = fuzz_part(input);
  sent = *action;
  el_lock_txn_build(&built, &keys, action, entry.rev, value_of_entry());
  el_kv_pack(&packed, &built.txn);
  el_kv_send(auth, &packed, 1000, on_answer, NULL);
  fuzz_answer(bytes);
  el_packed_txn_free(&packed);
  el_bytes_free(bytes);
}

static void carry_out(const el_entry_actions *actions) {
  is_answered = has_next = false;
  for (int i = 0; i < actions->n; i++) {
    const el_entry_action *action = &actions->list[i];
    if (action->kind == EL_ENTRY_SEND_REQUEST) {
      send_request(action);
    } else if (action->kind == EL_ENTRY_REPORT_GRANTED) {
      FUZZ_CHECK(action->key.rev > 0); /* the token */
    } else if (action->kind == EL_ENTRY_CONFIRM_LEASE) {
      next = EL_ENTRY_ON_LEASE_CONFIRMED;
      has_next = true;
    } else if (action->kind == EL_ENTRY_REPORT_SIGHT) {
      next = EL_ENTRY_ON_LEASE_PROVEN;
      has_next = true;
    }
  }
}

/* Applies an event, chosen by the input, that is not an answer. */
static void apply_any(el_entry_actions *actions) {
  enum { SIGNALS = EL_ENTRY_ON_TIMER + 1 };
  int64_t rev = (int64_t)fuzz_number(input, 16);
  unsigned kind = fuzz_number(input, SIGNALS + 4);
  if (kind == SIGNALS) {
    el_entry_watch_created(&entry, rev, actions);
  } else if (kind == SIGNALS + 1) {
    el_entry_key_changed(&entry, rev,
                         (el_key_change)fuzz_number(input, EL_KEY_DELETED + 1),
                         fuzz_number(input, 2) == 1, actions);
  } else if (kind == SIGNALS + 2) {
    el_entry_key_gone(&entry, rev, fuzz_number(input, 2) == 1, actions);
  } else if (kind == SIGNALS + 3) {
    el_entry_session_ended(
        &entry,
        (el_session_end)fuzz_number(input, EL_SESSION_END_LEFT_TO_EXPIRE + 1),
        actions);
  } else {
    bool is_start = kind == EL_ENTRY_ON_ACQUIRE || kind == EL_ENTRY_ON_TRY;
    bool is_allowed = !is_start || el_entry_can_start(&entry);
    el_entry_step(&entry,
                  is_allowed ? (el_entry_signal)kind : EL_ENTRY_ON_TIMER,
                  now_ms, actions);
  }
}

static void apply_next(el_entry_actions *actions) {
  if (is_answered) {
    el_entry_answered(&entry, &answered, now_ms, actions);
  } else if (has_next) {
    el_entry_step(&entry, next, now_ms, actions);
  } else {
    apply_any(actions);
  }
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
  auth = el_auth_new(&fuzz_channel, &timers, NULL, NULL, NULL, NULL, NULL);
  if (is_multi) queue_key.slot = 1;
  if (queue_key.mode == EL_MODE_PERMIT) queue_key.permits = 2;
  el_keys_init(&keys, (el_bytes){names, is_multi ? sizeof names - 1 : 1},
               &queue_key);
  el_session_init(&session, 5000, fuzz_number(&in, 2) * 2000, 0, 1);
  session.id = LEASE;
  session.ttl_ms = 5000;
  el_entry_init(&entry, queue_key.mode, &session);
  is_answered = has_next = false;
  for (int i = 0; i < STEPS_MAX && (in.left > 0 || is_answered || has_next);
       i++) {
    now_ms += fuzz_number(&in, 256) * 10;
    apply_next(&actions);
    carry_out(&actions);
  }
  el_keys_destroy(&keys);
  el_auth_free(auth);
  fuzz_reset();
  return 0;
}
