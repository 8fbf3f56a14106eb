/* sessions: those of one client: the usual one, and one more for each lock delay that somebody
 * asks for (rules/session.h): a lease has one time to live, and what hangs on it goes when
 * that is over. What entries work with is the same for all but for that. I/O thread only.
 */
#ifndef ETCDLOCK_LOCK_SESSIONS_H
#define ETCDLOCK_LOCK_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "lock/entry_driver.h"
#include "lock/session_driver.h"

enum {
  EL_LOCK_DELAYS_MAX =
      8 /* at a time: each has its lease, which is kept alive */
};

typedef struct el_sessions el_sessions;

/* |session| is the usual one's, and |world| what entries work with besides.
 * @thread io */
el_sessions *el_sessions_new(const el_session_world *session,
                             const el_entry_world *world);

/* Nothing may be out any more. @thread io */
void el_sessions_free(el_sessions *sessions);

/* The usual one's; the others follow it as |next|. @thread io */
el_entry_world *el_sessions_first(const el_sessions *sessions);

/* That of holds with |lock_delay_ms|; 0: the usual one's. NULL: there are too many that are in
 * use. @thread io */
el_entry_world *el_sessions_find(el_sessions *sessions, int64_t lock_delay_ms);

/* From now on answers are only tidied up. @thread io */
void el_sessions_stop(el_sessions *sessions);

/* Are there news of any? @thread io */
bool el_sessions_have_news(const el_sessions *sessions);

/* Are all of them over? @thread io */
bool el_sessions_are_over(const el_sessions *sessions);

#endif
