/* patience: how long an answer may take now. */
#include "net/patience.h"

#include "base/times.h"

static void sample(el_patience *patience, int64_t took_ms) {
  int64_t most_ms = EL_SAMPLE_MOST_ANSWERS * el_patience_ms(patience);
  int64_t deviation;
  if (took_ms > most_ms) took_ms = most_ms;
  deviation = took_ms - patience->srtt_8 / 8;
  if (!patience->is_measured) {
    patience->srtt_8 = 8 * took_ms;
    patience->rttvar_4 = 2 * took_ms;
  } else {
    int64_t size = deviation < 0 ? -deviation : deviation;
    patience->srtt_8 += deviation;
    patience->rttvar_4 += size - patience->rttvar_4 / 4;
  }
  patience->is_measured = true;
  patience->n_doublings = 0;
}

void el_patience_connected(el_patience *patience, int64_t took_ms) {
  if (!patience->is_answered) sample(patience, took_ms);
}

void el_patience_answered(el_patience *patience, int64_t took_ms) {
  sample(patience, took_ms);
  patience->is_answered = true;
}

void el_patience_expired(el_patience *patience) {
  if (patience->n_doublings < EL_ANSWER_DOUBLINGS) patience->n_doublings++;
}

void el_patience_reset(el_patience *patience) { patience->n_doublings = 0; }

int64_t el_patience_round_trip_ms(const el_patience *patience) {
  return patience->srtt_8 / 8;
}

int64_t el_patience_estimate_ms(const el_patience *patience) {
  int64_t srtt = patience->srtt_8 / 8, variation = patience->rttvar_4;
  return srtt + (variation > 3 * srtt ? variation : 3 * srtt);
}

int64_t el_patience_ms(const el_patience *patience) {
  int64_t least = patience->is_answered ? EL_ANSWER_MS : EL_FIRST_ANSWER_MS;
  int64_t estimate = el_patience_estimate_ms(patience);
  return (estimate > least ? estimate : least) << patience->n_doublings;
}
