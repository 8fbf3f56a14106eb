/* handoff: the key of one name, handed on among the owners of one client without
 * etcd, for as long as that is fair to others (rules/turn.h). I/O thread only.
 */
#ifndef ETCDLOCK_LOCK_HANDOFF_H
#define ETCDLOCK_LOCK_HANDOFF_H

#include "lock/census.h"
#include "rules/turn.h"

/* Embedded next to its entry driver; zero to begin with. */
typedef struct el_handoff {
  el_turn turn;
  el_census *census; /* on its way; NULL: none */
  bool is_answered;  /* a look was, just now: until el_handoff_settle */
  bool found_nobody; /* ... and this is what it has found */
} el_handoff;

/* etcd has granted the key. @thread io */
void el_handoff_begin(el_handoff *handoff);

/* May the next owner have the key of |driver| from the one who lets it go?
 * @thread io */
bool el_handoff_may_pass(const el_handoff *handoff,
                         const el_entry_driver *driver,
                         const el_turn_limits *limits);

/* May somebody share the key of |driver|, which is held? */
typedef enum el_sharing {
  EL_SHARE_NOT,  /* others wait behind it, and the turn is over */
  EL_SHARE_SOON, /* that is being found out; |driver| is looked at when it is */
  EL_SHARE_NOW
} el_sharing;

/* Whether others wait is found out if it has to be. All who wait when the answer comes
 * may share, however long that took. @thread io */
el_sharing el_handoff_share(el_handoff *handoff, el_entry_driver *driver,
                            const el_turn_limits *limits);

/* Whoever waited has heard what the latest look has found. @thread io */
void el_handoff_settle(el_handoff *handoff);

/* He has it. @thread io */
void el_handoff_passed(el_handoff *handoff, el_entry_driver *driver,
                       const el_turn_limits *limits);

/* The driver ends. @thread io */
void el_handoff_destroy(el_handoff *handoff);

#endif
