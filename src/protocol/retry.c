/* retry: the backoff before a failed request is sent again. */
#include "protocol/retry.h"

#include "base/jitter.h"
#include "base/times.h"

int64_t el_retry_at(const el_outcome *failed, int64_t now_ms, int n,
                    uint64_t salt) {
  int64_t soonest = now_ms + EL_AT_ONCE_MS, at;
  if (el_outcome_is_final(failed)) {
    return now_ms + EL_REFUSED_MS - el_jitter(EL_REFUSED_MS / 4, salt, now_ms);
  }
  if (failed->has_other_member) return soonest;
  at = failed->sent_ms + el_pause_ms(n, salt, now_ms);
  return at > soonest ? at : soonest;
}

int64_t el_retry_next(const el_outcome *failed, int64_t now_ms,
                      uint8_t *failures, uint64_t salt) {
  if (!failed->has_other_member && *failures < UINT8_MAX) ++*failures;
  return el_retry_at(failed, now_ms, *failures, salt);
}
