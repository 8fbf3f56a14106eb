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

static el_write_action end(el_write_order *order, el_write_action action) {
  order->state = EL_WRITE_IDLE;
  return action;
}

/* A write must not be sent after the end of its hold: if the key was handed off, the next hold has
 * the same key, so the guards would be true. */
static el_write_action send(el_write_order *order,
                            const el_write_event *event) {
  if (!event->is_held) return end(order, EL_WRITE_REPORT_NOT_HELD);
  order->state = order->is_in_doubt ? EL_WRITE_TOUCHING : EL_WRITE_WRITING;
  return order->is_in_doubt ? EL_WRITE_SEND_TOUCH : EL_WRITE_SEND_WRITE;
}

static el_write_action start(el_write_order *order,
                             const el_write_event *event) {
  if (order->state != EL_WRITE_IDLE) return EL_WRITE_WAIT;
  order->has_order_key = event->has_order_key;
  return send(order, event);
}

/* Records that the order key has the new mod_revision |rev|. A write that was sent before can no
 * longer be applied, because its guard names an earlier mod_revision. */
static void set_order_rev(el_write_order *order, int64_t rev) {
  order->mod_rev = rev;
  order->is_in_doubt = false;
}

static el_write_action on_touch_answer(el_write_order *order,
                                       const el_write_event *event) {
  if (el_write_may_retry(&event->outcome, false)) return EL_WRITE_RETRY_LATER;
  if (!event->outcome.is_done) return end(order, EL_WRITE_REPORT_UNSENT);
  if (!event->succeeded) return end(order, EL_WRITE_REPORT_KEY_GONE);
  set_order_rev(order, event->rev);
  return send(order, event);
}

static el_write_action on_write_failed(el_write_order *order,
                                       const el_outcome *failed) {
  if (!failed->is_definite) order->is_in_doubt = true;
  return el_write_may_retry(failed, true) ? EL_WRITE_RETRY_LATER
                                          : end(order, EL_WRITE_REPORT_FAILED);
}

/* If a guard was false although |is_whole|, only the order key's mod_revision differs, for example
 * because a touch was applied late. The write is then sent again after another
 * touch. */
static el_write_action on_write_answer(el_write_order *order,
                                       const el_write_event *event) {
  if (!event->outcome.is_done) return on_write_failed(order, &event->outcome);
  if (!event->succeeded && event->is_whole) {
    order->is_in_doubt = true;
    return send(order, event);
  }
  if (!event->succeeded) return end(order, EL_WRITE_REPORT_KEY_GONE);
  if (order->has_order_key) set_order_rev(order, event->rev);
  return end(order, EL_WRITE_REPORT_DONE);
}

static el_write_action on_answer(el_write_order *order,
                                 const el_write_event *event) {
  assert(order->state != EL_WRITE_IDLE);
  return order->state == EL_WRITE_TOUCHING ? on_touch_answer(order, event)
                                           : on_write_answer(order, event);
}

el_write_action el_write_order_step(el_write_order *order,
                                    const el_write_event *event) {
  switch (event->kind) {
    case EL_WRITE_ON_START:
      return start(order, event);
    case EL_WRITE_ON_RETRY:
      return send(order, event);
    case EL_WRITE_ON_ANSWER:
      return on_answer(order, event);
    case EL_WRITE_ON_CANCEL:
      break;
  }
  return end(order, EL_WRITE_REPORT_UNSENT);
}
