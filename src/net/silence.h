/* silence: finds out that a member has fallen silent.
 *
 * What is sent to a leader that has just died, or to a follower that hasn't
 * noticed yet, is lost without a word, and to wait for the end of every single
 * attempt would outlast the election. So the calls that are out are watched
 * together: while one of them is answered now and then, the others may take
 * their time (a burst, a slow disk); once none is, all of them are given up,
 * to be asked again elsewhere. (Some aren't watched: rpc.h, outlasts_silence.)
 */
#ifndef ETCDLOCK_NET_SILENCE_H
#define ETCDLOCK_NET_SILENCE_H

#include <stdbool.h>
#include <sys/queue.h>

#include "base/timer.h"

/* A call that is out; embedded in it. */
typedef struct el_asked el_asked;
struct el_asked {
  void (*give_up)(el_asked *asked);
  bool out;
  TAILQ_ENTRY(el_asked) link;
};

typedef struct el_silence el_silence;
struct el_silence {
  void (*silent)(el_silence *silence); /* after all calls were given up */
  el_timers *timers;
  el_timer timer;
  int64_t heard_ms; /* the last answer, or when the first of |out| was sent */
  int silences;     /* in a row */
  TAILQ_HEAD(, el_asked) out;
};

/* @thread io */
void el_silence_init(el_silence *silence, el_timers *timers,
                     void (*silent)(el_silence *silence));

/* |asked| was sent. @thread io */
void el_silence_sent(el_silence *silence, el_asked *asked);

/* |asked| has come to its end; |answered|: by an answer of etcd's.
 * @thread io */
void el_silence_ended(el_silence *silence, el_asked *asked, bool answered);

/* Forgets what is out. @thread io */
void el_silence_destroy(el_silence *silence);

#endif
