/* L1 patience: finds out that a member has fallen silent.
 *
 * What is sent to a leader that has just died, or to a follower that hasn't
 * noticed yet, is lost without a word, and to wait for the end of every single
 * attempt would outlast the election. So the calls that are out are watched
 * together: while one of them is answered now and then, the others may take
 * their time (a burst, a slow disk); once none is, all of them are given up,
 * to be asked again elsewhere.
 */
#ifndef ETCDLOCK_PATIENCE_H
#define ETCDLOCK_PATIENCE_H

#include <stdbool.h>
#include <sys/queue.h>

#include "timer.h"

/* A call that is out; embedded in it. */
typedef struct el_asked el_asked;
struct el_asked {
  void (*give_up)(el_asked *asked);
  bool out;
  TAILQ_ENTRY(el_asked) link;
};

typedef struct el_patience el_patience;
struct el_patience {
  void (*silent)(el_patience *patience); /* after all calls were given up */
  el_timers *timers;
  el_timer timer;
  int64_t heard_ms; /* the last answer, or when the first of |out| was sent */
  int silences;     /* in a row */
  TAILQ_HEAD(, el_asked) out;
};

/* @thread io */
void el_patience_init(el_patience *patience, el_timers *timers,
                      void (*silent)(el_patience *patience));

/* |asked| was sent. @thread io */
void el_patience_sent(el_patience *patience, el_asked *asked);

/* |asked| has come to its end; |answered|: by an answer of etcd's.
 * @thread io */
void el_patience_ended(el_patience *patience, el_asked *asked, bool answered);

/* Forgets what is out. @thread io */
void el_patience_destroy(el_patience *patience);

#endif
