/* handoff_budget: limits the holds, and the time, for which a client hands one key off between its
 * waiters. */
#include "protocol/handoff_budget.h"

void el_handoff_budget_start(el_handoff_budget *budget, int64_t now_ms) {
  *budget = (el_handoff_budget){.holds = 1, .start_ms = now_ms};
}

bool el_handoff_budget_has_room(const el_handoff_budget *budget,
                                const el_handoff_limits *limits,
                                int64_t now_ms) {
  return budget->holds < limits->holds &&
         now_ms < budget->start_ms + limits->ms;
}

static bool is_half_spent(const el_handoff_budget *budget,
                          const el_handoff_limits *limits, int64_t now_ms) {
  return budget->holds * 2 >= limits->holds ||
         (now_ms - budget->start_ms) * 2 >= limits->ms;
}

bool el_handoff_budget_begin_query(el_handoff_budget *budget, int64_t now_ms) {
  if (budget->query_ms != 0) return false;
  budget->query_ms = now_ms;
  budget->query_holds = budget->holds;
  return true;
}

bool el_handoff_budget_spend(el_handoff_budget *budget,
                             const el_handoff_limits *limits, int64_t now_ms) {
  budget->holds++;
  return is_half_spent(budget, limits, now_ms) &&
         el_handoff_budget_begin_query(budget, now_ms);
}

void el_handoff_budget_end_query(el_handoff_budget *budget,
                                 el_contention contention) {
  if (contention == EL_CONTENTION_NONE) {
    budget->start_ms = budget->query_ms;
    budget->holds -= budget->query_holds - 1;
  }
  budget->query_ms = contention == EL_CONTENTION_WAITERS ? -1 : 0;
}
