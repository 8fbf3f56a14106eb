/* retry: the backoff before a failed request is sent again. */
#include "protocol/retry.h"

#include "base/jitter.h"

enum {
  /* The election of a raft leader takes one or two seconds. A retry every 400 ms finds the new
   * leader soon and costs little. */
  BACKOFF_FIRST_MS = 50,
  BACKOFF_MAX_MS = 400,
  RETRY_MIN_MS = 10,
  REFUSED_RETRY_MS = 1000
};

/* Returns |ms| minus a jitter of up to a quarter of |ms|. */
static int64_t with_jitter(int64_t ms, uint64_t salt, int64_t now_ms) {
  return ms - el_jitter(ms / 4, salt, now_ms);
}

int64_t el_retry_at(const el_outcome *failed, int64_t now_ms, int n,
                    uint64_t salt) {
  int64_t ms = BACKOFF_FIRST_MS;
  int64_t soonest = now_ms + RETRY_MIN_MS;
  if (el_outcome_is_final(failed)) {
    return now_ms + with_jitter(REFUSED_RETRY_MS, salt, now_ms);
  }
  if (failed->has_other_member) return soonest;
  while (--n > 0 && ms < BACKOFF_MAX_MS) {
    ms *= 2;
  }
  ms = with_jitter(ms, salt, now_ms);
  return failed->sent_ms + ms > soonest ? failed->sent_ms + ms : soonest;
}

int64_t el_retry_next(const el_outcome *failed, int64_t now_ms,
                      uint8_t *failures, uint64_t salt) {
  if (!failed->has_other_member && *failures < UINT8_MAX) ++*failures;
  return el_retry_at(failed, now_ms, *failures, salt);
}
