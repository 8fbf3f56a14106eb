/* handoff: the key of one name, handed on among the owners of one client. */
#include "lock/handoff.h"

#include "base/clock.h"

static void on_counted(void *arg, el_behind behind) {
  el_handoff *handoff = arg;
  handoff->census = NULL;
  el_turn_note(&handoff->turn, behind == EL_BEHIND_NOBODY);
}

/* What is out is about an earlier turn. */
static void forget(el_handoff *handoff) {
  el_census_forget(handoff->census);
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
    handoff->census = el_census_take(driver, on_counted, handoff);
  }
}

void el_handoff_destroy(el_handoff *handoff) { forget(handoff); }
