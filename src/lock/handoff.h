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
} el_handoff;

/* etcd has granted the key. @thread io */
void el_handoff_begin(el_handoff *handoff);

/* May the next owner have the key of |driver| from the one who lets it go?
 * @thread io */
bool el_handoff_may_pass(const el_handoff *handoff,
                         const el_entry_driver *driver,
                         const el_turn_limits *limits);

/* He has it. @thread io */
void el_handoff_passed(el_handoff *handoff, el_entry_driver *driver,
                       const el_turn_limits *limits);

/* The driver ends. @thread io */
void el_handoff_destroy(el_handoff *handoff);

#endif
