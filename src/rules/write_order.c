/* write_order: in which order the guarded writes of a hold take effect. */
#include "rules/write_order.h"

#include <assert.h>

#include "rules/kind.h"

int64_t el_write_order_first(el_mode mode, int64_t rev) {
  return el_kind_has_notes(mode) ? 0 : rev;
}

void el_write_order_init(el_write_order *order, int64_t mod_rev) {
  *order = (el_write_order){.mod_rev = mod_rev};
}

int64_t el_write_order_pass(const el_write_order *order) {
  return order->state != EL_WRITE_IDLE || order->in_doubt ? -1 : order->mod_rev;
}

bool el_write_may_repeat(const el_outcome *failed, bool writes) {
  return !failed->is_done && failed->is_retriable &&
         (failed->is_definite || !writes);
}

static el_write_action end(el_write_order *order, el_write_action action) {
  order->state = EL_WRITE_IDLE;
  return action;
}

/* The next hold may have the same key, which a request sent after this hold would find. */
static el_write_action send(el_write_order *order,
                            const el_write_event *event) {
  if (!event->kept) return end(order, EL_WRITE_LET_GO);
  order->state = order->in_doubt ? EL_WRITE_TOUCHING : EL_WRITE_WRITING;
  return order->in_doubt ? EL_WRITE_TOUCH : EL_WRITE_SEND;
}

static el_write_action start(el_write_order *order,
                             const el_write_event *event) {
  if (order->state != EL_WRITE_IDLE) return EL_WRITE_WAIT;
  order->renews = event->renews;
  return send(order, event);
}

/* Of no write that was sent before this |rev| can anything come. */
static void renew(el_write_order *order, int64_t rev) {
  order->mod_rev = rev;
  order->in_doubt = false;
}

static el_write_action on_touched(el_write_order *order,
                                  const el_write_event *event) {
  if (el_write_may_repeat(&event->outcome, false)) return EL_WRITE_AGAIN;
  if (!event->outcome.is_done) return end(order, EL_WRITE_UNSENT);
  if (!event->succeeded) return end(order, EL_WRITE_KEY_GONE);
  renew(order, event->rev);
  return send(order, event);
}

static el_write_action on_not_written(el_write_order *order,
                                      const el_outcome *failed) {
  if (!failed->is_definite) order->in_doubt = true;
  return el_write_may_repeat(failed, true) ? EL_WRITE_AGAIN
                                           : end(order, EL_WRITE_FAILED);
}

/* If nothing has come of it but that the order's key has another mod_revision (a touch
 * that came late, say), it is sent again with that. */
static el_write_action on_written(el_write_order *order,
                                  const el_write_event *event) {
  if (!event->outcome.is_done) return on_not_written(order, &event->outcome);
  if (!event->succeeded && event->whole) {
    order->in_doubt = true;
    return send(order, event);
  }
  if (!event->succeeded) return end(order, EL_WRITE_KEY_GONE);
  if (order->renews) renew(order, event->rev);
  return end(order, EL_WRITE_DONE);
}

static el_write_action on_answer(el_write_order *order,
                                 const el_write_event *event) {
  assert(order->state != EL_WRITE_IDLE);
  return order->state == EL_WRITE_TOUCHING ? on_touched(order, event)
                                           : on_written(order, event);
}

el_write_action el_write_order_step(el_write_order *order,
                                    const el_write_event *event) {
  switch (event->kind) {
    case EL_WRITE_START:
      return start(order, event);
    case EL_WRITE_RETRY:
      return send(order, event);
    case EL_WRITE_ANSWER:
      return on_answer(order, event);
    case EL_WRITE_STOP:
      break;
  }
  return end(order, EL_WRITE_UNSENT);
}
