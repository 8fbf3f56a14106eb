/* lease_proof: until when a lease is proven to be alive, by what etcd has answered so far. */
#include "protocol/lease_proof.h"

#include <stddef.h>

enum {
  /* If the revision grows by this number or more between two answers, the member may have got a
   * snapshot in between. A member gets one only after it has missed 5,000 log entries. The limit is
   * half of that, because some entries do not raise the revision. */
  SNAPSHOT_REVS = 2500
};

int64_t el_lease_proof_hold_ms(int64_t ttl_ms) {
  int64_t margin = ttl_ms / EL_MARGIN_DIVISOR;
  if (margin < EL_MARGIN_LEAST_MS) margin = EL_MARGIN_LEAST_MS;
  if (margin > EL_MARGIN_MOST_MS) margin = EL_MARGIN_MOST_MS;
  return ttl_ms - margin;
}

/* Returns the time from which on the request of a sight must be sent to prove |renewal|. */
static int64_t earliest_ms(const el_lease_proof *proof,
                           const el_renewal *renewal, int64_t now_ms) {
  return now_ms < proof->alive_until ? renewal->sent_ms : renewal->answered_ms;
}

/* Extends |alive_until| by |renewal|, which is proven. */
static void extend(el_lease_proof *proof, const el_renewal *renewal) {
  int64_t end = renewal->sent_ms + el_lease_proof_hold_ms(renewal->ttl_ms);
  if (end > proof->alive_until) proof->alive_until = end;
}

void el_lease_proof_add_renewal(el_lease_proof *proof,
                                const el_renewal *renewal) {
  el_renewal added = *renewal;
  for (int i = 0; i < EL_RENEWALS_MAX; i++) {
    el_renewal *at = &proof->renewals[i];
    if (added.sent_ms > at->sent_ms) {
      el_renewal earlier = *at;
      *at = added;
      added = earlier;
    }
  }
  if (renewal->is_grant) extend(proof, renewal);
}

/* Tells whether one member has answered both, in one term, and shows no sign of a snapshot between
 * the two. */
static bool is_same_reign(const el_renewal *renewal, const el_sight *sight) {
  return sight->member == renewal->member && sight->term == renewal->term &&
         sight->rev - renewal->rev < SNAPSHOT_REVS;
}

/* Returns the latest renewal that |sight| proves. NULL: it proves none. */
static const el_renewal *proven_by(const el_lease_proof *proof,
                                   const el_sight *sight, int64_t now_ms) {
  for (int i = 0; i < EL_RENEWALS_MAX; i++) {
    const el_renewal *renewal = &proof->renewals[i];
    if (renewal->answered_ms != 0 &&
        (renewal->is_grant || is_same_reign(renewal, sight)) &&
        sight->sent_ms >= earliest_ms(proof, renewal, now_ms)) {
      return renewal;
    }
  }
  return NULL;
}

/* It tries again after each success: a proven renewal extends |alive_until|, and then the same
 * sight may prove a later one, too. */
const el_renewal *el_lease_proof_add_sight(el_lease_proof *proof,
                                           const el_sight *sight,
                                           int64_t now_ms) {
  const el_renewal *proven = NULL, *next;
  if (sight->sent_ms > proof->seen.sent_ms) proof->seen = *sight;
  while ((next = proven_by(proof, sight, now_ms)) != proven) {
    proven = next;
    extend(proof, proven);
  }
  return proven;
}

bool el_lease_proof_needs_sight(const el_lease_proof *proof, int64_t sent_ms,
                                int64_t now_ms) {
  return sent_ms < earliest_ms(proof, &proof->renewals[0], now_ms);
}
