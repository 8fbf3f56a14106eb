/* claim: until when a session's holders may say "held". */
#include "lock/claim.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"

struct el_claim {
  atomic_int refs;
  _Atomic int64_t
      until_ms; /* negative: it has ended, for the el_loss -until_ms */
};

el_claim *el_claim_new(void) {
  el_claim *claim = el_alloc(sizeof *claim);
  atomic_init(&claim->refs, 1);
  atomic_init(&claim->until_ms, 0);
  return claim;
}

el_claim *el_claim_ref(el_claim *claim) {
  atomic_fetch_add(&claim->refs, 1);
  return claim;
}

void el_claim_unref(el_claim *claim) {
  if (atomic_fetch_sub(&claim->refs, 1) == 1) {
    free(claim);
  }
}

int64_t el_claim_until(const el_claim *claim, el_loss *loss) {
  int64_t until_ms =
      atomic_load_explicit(&claim->until_ms, memory_order_acquire);
  *loss = until_ms < 0 ? (el_loss)-until_ms : EL_LOSS_EXPIRED;
  return until_ms < 0 ? 0 : until_ms;
}

void el_claim_set(el_claim *claim, int64_t until_ms) {
  atomic_store_explicit(&claim->until_ms, until_ms, memory_order_release);
}

void el_claim_end(el_claim *claim, el_loss loss) {
  if (atomic_load(&claim->until_ms) > el_now_ms()) {
    el_claim_set(claim, -(int64_t)loss);
  }
}
