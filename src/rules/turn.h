/* turn: how long the owners of one client may hand a key on among themselves.
 *
 * Each hand-over spares etcd two writes, and lets those wait longer who queue behind
 * the key. So it is bounded: from the moment at which, as far as is known, somebody
 * may be waiting, so many holds and so much time. That moment is the grant by etcd,
 * and moves on with each look that finds nobody behind; one is taken when half of
 * the turn is used up, so that it needn't be waited for, and at its end if none was
 * before. Once somebody was seen the turn has its end. (Cohort locks, Dice et al. 2012,
 * have the same bound.)
 */
#ifndef ETCDLOCK_RULES_TURN_H
#define ETCDLOCK_RULES_TURN_H

#include <stdbool.h>
#include <stdint.h>

/* Who is behind our key? */
typedef enum el_behind {
  EL_BEHIND_UNKNOWN, /* it was not answered */
  EL_BEHIND_NOBODY,
  EL_BEHIND_SOMEBODY, /* or somebody may be, behind many keys of user data */
  EL_BEHIND_LOST      /* it is gone, or off its lease */
} el_behind;

typedef struct el_turn_limits {
  int32_t holds; /* of one turn; below 2: none is handed over */
  int64_t ms;    /* how long a turn may be for another hold to begin */
} el_turn_limits;

/* Zero: nothing is held. */
typedef struct el_turn {
  int64_t since_ms;   /* when nobody was behind */
  int64_t looked_ms;  /* when was asked who is; 0: not yet; -1: somebody was */
  int32_t holds;      /* since nobody was */
  int32_t holds_then; /* when was asked */
} el_turn;

/* etcd has granted the key. @thread any */
void el_turn_begin(el_turn *turn, int64_t now_ms);

/* May one more hold begin without etcd? @thread any */
bool el_turn_has_room(const el_turn *turn, const el_turn_limits *limits,
                      int64_t now_ms);

/* It has begun. True: find out now who is behind; NOTE is awaited.
 * @thread any */
bool el_turn_pass(el_turn *turn, const el_turn_limits *limits, int64_t now_ms);

/* The turn is over: is it to be found out whether anybody is behind? NOTE is awaited if
 * so. @thread any */
bool el_turn_look(el_turn *turn, int64_t now_ms);

/* What the look has found: who was behind when it was sent. @thread any */
void el_turn_note(el_turn *turn, el_behind behind);

#endif
