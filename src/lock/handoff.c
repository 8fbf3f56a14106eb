/* handoff: the key of one name, handed on among the owners of one client. */
#include "lock/handoff.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/of.h"
#include "rules/recipe.h"

/* The question who is behind. */
typedef struct el_census {
  el_request request;
  el_handoff *handoff; /* NULL: not asked any more */
  el_entry_driver *driver;
  el_keys keys;
  int64_t rev; /* of our key */
} el_census;

static void conclude(el_handoff *handoff, const el_census *census,
                     const el_txn_answer *answer) {
  el_behind behind = el_recipe_read_census(census->rev, answer);
  handoff->census = NULL;
  el_turn_note(&handoff->turn, behind == EL_BEHIND_NOBODY);
  if (behind == EL_BEHIND_LOST) {
    el_entry_driver_signal(census->driver, EL_ENTRY_KEY_GONE);
  }
}

static void on_answer(el_request *request, el_txn_answer *answer) {
  el_census *census = EL_OF(request, el_census, request);
  if (answer != NULL) {
    if (census->handoff != NULL) {
      conclude(census->handoff, census, answer);
    }
    el_txn_answer_free(answer);
  } else if (census->handoff != NULL) {
    census->handoff->census = NULL;
  }
  el_keys_destroy(&census->keys);
  free(census);
}

static void ask(el_handoff *handoff, el_entry_driver *driver) {
  const el_keys *keys = &driver->keys;
  el_census *census = el_alloc(sizeof *census);
  el_recipe recipe;
  handoff->census = census;
  census->handoff = handoff;
  census->driver = driver;
  census->request.done = on_answer;
  census->request.counted_as = offsetof(el_stats, looks);
  census->rev = driver->entry.rev;
  el_keys_init(&census->keys, el_keys_name(keys), keys->lease);
  el_recipe_build_census(&recipe, &census->keys);
  el_requests_send(driver->world->requests, &census->request, &recipe.txn);
}

/* What is out is about an earlier turn. */
static void forget(el_handoff *handoff) {
  if (handoff->census != NULL) handoff->census->handoff = NULL;
  handoff->census = NULL;
}

void el_handoff_begin(el_handoff *handoff) {
  forget(handoff);
  el_turn_begin(&handoff->turn, el_now_ms());
}

bool el_handoff_may_pass(const el_handoff *handoff,
                         const el_entry_driver *driver,
                         const el_turn_limits *limits) {
  return driver->entry.state == EL_ENTRY_HELD &&
         el_session_driver_can_claim(driver->world->session) &&
         el_turn_has_room(&handoff->turn, limits, el_now_ms());
}

void el_handoff_passed(el_handoff *handoff, el_entry_driver *driver,
                       const el_turn_limits *limits) {
  if (el_turn_pass(&handoff->turn, limits, el_now_ms())) {
    ask(handoff, driver);
  }
}

void el_handoff_destroy(el_handoff *handoff) { forget(handoff); }
