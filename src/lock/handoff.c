/* handoff: the key of one name, handed on among the owners of one client. */
#include "lock/handoff.h"

#include "base/clock.h"

static void on_counted(void *arg, el_behind behind) {
  el_handoff *handoff = arg;
  handoff->census = NULL;
  handoff->is_answered = true;
  handoff->found_nobody = behind == EL_BEHIND_NOBODY;
  el_turn_note(&handoff->turn, behind);
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

static void look(el_handoff *handoff, el_entry_driver *driver) {
  handoff->census = el_census_take(driver, on_counted, handoff);
}

el_sharing el_handoff_share(el_handoff *handoff, el_entry_driver *driver,
                            const el_turn_limits *limits) {
  if (el_handoff_may_pass(handoff, driver, limits)) return EL_SHARE_NOW;
  if (!el_session_driver_can_claim(driver->world->session)) {
    return EL_SHARE_NOT;
  }
  if (handoff->is_answered) {
    return handoff->found_nobody ? EL_SHARE_NOW : EL_SHARE_NOT;
  }
  if (handoff->census == NULL && el_turn_look(&handoff->turn, el_now_ms())) {
    look(handoff, driver);
  }
  return handoff->census != NULL ? EL_SHARE_SOON : EL_SHARE_NOT;
}

void el_handoff_settle(el_handoff *handoff) { handoff->is_answered = false; }

void el_handoff_passed(el_handoff *handoff, el_entry_driver *driver,
                       const el_turn_limits *limits) {
  if (el_turn_pass(&handoff->turn, limits, el_now_ms())) {
    look(handoff, driver);
  }
}

void el_handoff_destroy(el_handoff *handoff) { forget(handoff); }
