/* write_order: the order in which the guarded writes of one hold take effect. */
#include "protocol/write_order.h"

#include <assert.h>

#include "protocol/conflict_matrix.h"

int64_t el_write_order_initial_rev(el_mode mode, int64_t rev) {
  return el_mode_has_markers(mode) ? 0 : rev;
}

void el_write_order_init(el_write_order *order, int64_t mod_rev) {
  *order = (el_write_order){.mod_rev = mod_rev};
}

int64_t el_write_order_handoff_rev(const el_write_order *order) {
  return order->state != EL_WRITE_IDLE || order->is_in_doubt ? -1
                                                             : order->mod_rev;
}

bool el_write_may_retry(const el_outcome *failed, bool writes) {
  return !failed->is_done && failed->is_retriable &&
         (failed->is_definite || !writes);
}

/* A write must not be sent after the end of its hold: if the key was handed off, the next hold has
 * the same key, so the guards would be true. */
el_write_action el_write_order_send(el_write_order *order, bool is_held) {
  if (!is_held) return EL_WRITE_REPORT_NOT_HELD;
  order->state = order->is_in_doubt ? EL_WRITE_TOUCHING : EL_WRITE_WRITING;
  return order->is_in_doubt ? EL_WRITE_SEND_TOUCH : EL_WRITE_SEND_WRITE;
}

/* Records that the order key has the new mod_revision |rev|. A write that was sent before can no
 * longer be applied, because its guard names an earlier mod_revision. */
static void set_order_rev(el_write_order *order, int64_t rev) {
  order->mod_rev = rev;
  order->is_in_doubt = false;
}

static el_write_action on_touch_answer(el_write_order *order,
                                       const el_write_answer *answer,
                                       bool is_held) {
  if (el_write_may_retry(&answer->outcome, false)) return EL_WRITE_RETRY_LATER;
  if (!answer->outcome.is_done) return EL_WRITE_REPORT_UNSENT;
  if (!answer->succeeded) return EL_WRITE_REPORT_KEY_GONE;
  set_order_rev(order, answer->rev);
  return el_write_order_send(order, is_held);
}

static el_write_action on_write_failed(el_write_order *order,
                                       const el_outcome *failed) {
  if (!failed->is_definite) order->is_in_doubt = true;
  return el_write_may_retry(failed, true) ? EL_WRITE_RETRY_LATER
                                          : EL_WRITE_REPORT_FAILED;
}

/* If a guard was false although |is_whole|, only the order key's mod_revision differs, for example
 * because a touch was applied late. The write is then sent again after another touch. */
el_write_action el_write_order_take_answer(el_write_order *order,
                                           const el_write_answer *answer,
                                           bool is_held, bool puts_order_key) {
  assert(order->state != EL_WRITE_IDLE);
  if (order->state == EL_WRITE_TOUCHING) {
    return on_touch_answer(order, answer, is_held);
  }
  if (!answer->outcome.is_done) return on_write_failed(order, &answer->outcome);
  if (!answer->succeeded && answer->is_whole) {
    order->is_in_doubt = true;
    return el_write_order_send(order, is_held);
  }
  if (!answer->succeeded) return EL_WRITE_REPORT_KEY_GONE;
  if (puts_order_key) set_order_rev(order, answer->rev);
  return EL_WRITE_REPORT_DONE;
}

bool el_write_order_give_up(el_write_order *order) {
  assert(order->state != EL_WRITE_IDLE);
  if (order->state == EL_WRITE_WRITING) order->is_in_doubt = true;
  return order->state == EL_WRITE_TOUCHING;
}

void el_write_order_end(el_write_order *order) { order->state = EL_WRITE_IDLE; }
