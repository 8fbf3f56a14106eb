/* L3 retry: when a request that failed is sent again. */
#include "retry.h"

enum {
  /* An election takes a second or two, and whoever asks every 400 ms finds its
   * end soon without being a burden. */
  BACKOFF_FIRST_MS = 50,
  BACKOFF_MAX_MS = 400,
  AGAIN_MIN_MS = 10,
  REFUSED_AGAIN_MS = 1000
};

int64_t el_retry_at(const el_outcome *failed, int64_t now_ms, int n) {
  int64_t ms = BACKOFF_FIRST_MS;
  int64_t soonest = now_ms + AGAIN_MIN_MS;
  if (failed->definite && !failed->retriable) return now_ms + REFUSED_AGAIN_MS;
  if (failed->elsewhere) return soonest;
  while (--n > 0 && ms < BACKOFF_MAX_MS) {
    ms *= 2;
  }
  return failed->sent_ms + ms > soonest ? failed->sent_ms + ms : soonest;
}
