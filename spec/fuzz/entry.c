/* A lock's entry that is driven by answers and watch events of a server that says anything. */
#include "fuzz.h"

#include "base/timer.h"
#include "etcd/kv.h"
#include "rules/recipe.h"

enum { STEPS_MAX = 200, MODES = EL_MODE_MULTI + 1 };

static const int64_t LEASE = 0x1234;

static el_auth *auth;
static fuzz_input *input;
static el_keys keys;
static el_entry entry;
static el_entry_event next; /* what the entry is told */
static bool has_next;
static int64_t now_ms;
static el_entry_action asked; /* the request that is out */

static void on_answer(void *arg, el_txn_answer *answer) {
  (void)arg;
  el_recipe_read(&keys, &asked, answer, &next);
  next.proven_rev = fuzz_number(input, 2) == 0 ? 0 : answer->rev;
  has_next = true;
  el_txn_answer_free(answer);
}

static void ask(const el_entry_action *action) {
  static el_recipe recipe;
  bool is_multi = keys.next != NULL;
  el_packed_txn packed;
  el_bytes bytes = fuzz_part(input);
  asked = *action;
  el_recipe_build(&recipe, &keys, action, entry.rev,
                  (el_bytes){is_multi ? "x\0y" : "x", is_multi ? 3 : 1});
  el_kv_pack(&packed, &recipe.txn);
  el_kv_send(auth, &packed, 1000, on_answer, NULL);
  fuzz_answer(bytes);
  el_packed_txn_free(&packed);
  el_bytes_free(bytes);
}

static void carry_out(const el_entry_actions *actions) {
  has_next = false;
  for (int i = 0; i < actions->n; i++) {
    const el_entry_action *action = &actions->list[i];
    if (action->kind == EL_ENTRY_SEND) {
      ask(action);
    } else if (action->kind == EL_ENTRY_GRANTED) {
      FUZZ_CHECK(action->place.rev > 0); /* the token */
    } else if (action->kind == EL_ENTRY_CONFIRM && !has_next) {
      next = (el_entry_event){.kind = EL_ENTRY_RENEWED};
      has_next = true;
    } else if (action->kind == EL_ENTRY_PROOF && !has_next) {
      next = (el_entry_event){.kind = EL_ENTRY_CLAIMED};
      has_next = true;
    }
  }
}

/* What happens besides answers. */
static el_entry_event choose(void) {
  el_entry_event event = {.rev = (int64_t)fuzz_number(input, 16),
                          .lease = fuzz_number(input, 2) ? LEASE : 0,
                          .detached = fuzz_number(input, 2) == 1};
  static const int kinds[] = {
      EL_ENTRY_STOP,         EL_ENTRY_WATCH_CREATED, EL_ENTRY_WATCH_DELETED,
      EL_ENTRY_WATCH_PUT,    EL_ENTRY_WATCH_REFUSED, EL_ENTRY_CLAIMED,
      EL_ENTRY_UNPROVEN,     EL_ENTRY_LAPSED,        EL_ENTRY_MAX_HOLD,
      EL_ENTRY_HANDED_OFF,   EL_ENTRY_KEY_GONE,      EL_ENTRY_KEY_FOUND,
      EL_ENTRY_SESSION_DEAD, EL_ENTRY_TIMER,         EL_ENTRY_START,
      EL_ENTRY_TRY,
  };
  event.kind = kinds[fuzz_number(input, sizeof kinds / sizeof *kinds)];
  if (event.kind == EL_ENTRY_SESSION_DEAD) {
    event.end = (el_session_end)fuzz_number(input, EL_SESSION_LEFT + 1);
  }
  if ((event.kind == EL_ENTRY_START || event.kind == EL_ENTRY_TRY) &&
      !el_entry_is_free(&entry)) {
    event.kind = EL_ENTRY_TIMER;
  }
  return event;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char names[] = "a\0a/b\0c";
  fuzz_input in = {data, size};
  el_timers timers = {0};
  el_entry_actions actions;
  el_session session;
  el_place place = {.lease = LEASE, .mode = (el_mode)fuzz_number(&in, MODES)};
  bool is_multi = place.mode == EL_MODE_MULTI;
  input = &in;
  now_ms = 1;
  auth = el_auth_new(&fuzz_channel, &timers, NULL, NULL, NULL);
  if (is_multi) place.slot = 1;
  if (place.mode == EL_MODE_PERMIT) place.permits = 2;
  el_keys_init(&keys, (el_bytes){names, is_multi ? sizeof names - 1 : 1},
               &place);
  el_session_init(&session, 5000, fuzz_number(&in, 2) * 2000, 0, 1);
  session.id = LEASE;
  session.ttl_ms = 5000;
  el_entry_init(&entry, place.mode, &session);
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
