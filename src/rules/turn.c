/* turn: how long the owners of one client may hand a key on among themselves. */
#include "rules/turn.h"

void el_turn_begin(el_turn *turn, int64_t now_ms) {
  *turn = (el_turn){.holds = 1, .since_ms = now_ms};
}

bool el_turn_has_room(const el_turn *turn, const el_turn_limits *limits,
                      int64_t now_ms) {
  return turn->holds < limits->holds && now_ms < turn->since_ms + limits->ms;
}

static bool is_half_over(const el_turn *turn, const el_turn_limits *limits,
                         int64_t now_ms) {
  return turn->holds * 2 >= limits->holds ||
         (now_ms - turn->since_ms) * 2 >= limits->ms;
}

bool el_turn_look(el_turn *turn, int64_t now_ms) {
  if (turn->looked_ms != 0) return false;
  turn->looked_ms = now_ms;
  turn->holds_then = turn->holds;
  return true;
}

bool el_turn_pass(el_turn *turn, const el_turn_limits *limits, int64_t now_ms) {
  turn->holds++;
  return is_half_over(turn, limits, now_ms) && el_turn_look(turn, now_ms);
}

void el_turn_note(el_turn *turn, el_behind behind) {
  if (behind == EL_BEHIND_NOBODY) {
    turn->since_ms = turn->looked_ms;
    turn->holds -= turn->holds_then - 1;
  }
  turn->looked_ms = behind == EL_BEHIND_SOMEBODY ? -1 : 0;
}
