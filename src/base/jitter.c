/* jitter: random parts of retry delays. */
#include "base/jitter.h"

#include "base/times.h"

/* Hashes |salt| and |now_ms| with splitmix64 (Steele 2014). */
int64_t el_jitter(int64_t span_ms, uint64_t salt, int64_t now_ms) {
  uint64_t x = salt + (uint64_t)now_ms * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return (int64_t)(x % (uint64_t)(span_ms + 1));
}

int64_t el_pause_ms(int n, uint64_t salt, int64_t now_ms) {
  int64_t ms = EL_PAUSE_FIRST_MS;
  while (--n > 0 && ms < EL_PAUSE_LAST_MS)
    ms *= 2;
  return ms - el_jitter(ms / 4, salt, now_ms);
}
