/* health: the passive health check of the member in use.
 *
 * A leader that has just died does not answer, nor does a follower that has not noticed its
 * leader's death yet. To wait for the timeout of each request would take longer than the election.
 * So the check judges all calls under way together. As long as the member answers one of them from
 * time to time, the others may take long (a burst, a slow disk). If no answer comes for the limit
 * below, the check cancels all calls, and their callers may send them again, to another member or
 * on another connection.
 *
 * The limit comes from net/patience.h, and is longer if there is no other member
 * (el_health_limit_ms). If there are other members, and etcd has answered before, the limit doubles
 * only after each was tried: they may be electing a leader, and then a request that is sent again
 * helps more than a long wait. Keepalives have this limit and doublings of their own. Calls with
 * may_be_slow or pinned_member (call.h) are left out. */
#ifndef ETCDLOCK_NET_HEALTH_H
#define ETCDLOCK_NET_HEALTH_H

#include <stdbool.h>
#include <sys/queue.h>

#include "base/timer.h"
#include "net/patience.h"

/* el_health_call is a call that the health check watches; embedded in the call. */
typedef struct el_health_call el_health_call;
struct el_health_call {
  /* called when the health check cancels the call */
  void (*cancel)(el_health_call *call);
  int64_t sent_ms;   /* by el_now_ms */
  bool is_connected; /* false: it waits for the connection */
  bool is_pending;   /* in the list |pending| */
  /* It is a keepalive. If it is late, it is cancelled even if the member answers other calls: the
   * member may have passed it on to a leader that is gone. Its owner sends others meanwhile. */
  bool is_keepalive;
  bool is_restarted; /* cancelled by el_health_restart */
  bool is_given_up;  /* cancelled because the client leaves the member */
  TAILQ_ENTRY(el_health_call) link;
};

/* el_health is the health check of the member in use; embedded in the channel. */
typedef struct el_health el_health;
struct el_health {
  /* Tells whether there is a connection to the member. If it is new, calls el_health_connected. */
  bool (*is_connected)(el_health *health);
  /* tells whether another member is connected while the client connects to the one in use */
  bool (*is_overtaken)(el_health *health);
  /* called when the limit has passed; false: go on waiting for another limit */
  bool (*is_unresponsive)(el_health *health);
  /* called after the pending calls were cancelled; if is_overtaken, only those to the member in use
   */
  void (*on_unresponsive)(el_health *health);
  /* called after a keepalive was cancelled that was late, while other calls were answered */
  void (*on_late_keepalive)(el_health *health);
  el_timers *timers;
  el_timer timer; /* set as long as a call is pending */
  /* by el_now_ms: the latest of these times: the last answer came, the first pending call was sent,
   * this member came into use */
  int64_t quiet_since_ms;
  int64_t heard_ms; /* by el_now_ms: when el_health_heard was called last */
  int64_t moved_ms; /* by el_now_ms: when this member came into use */
  int64_t left_until_ms; /* when calls to the previous member are given up */
  el_patience patience;
  /* How many keepalives were late, while other calls were answered; at most EL_ANSWER_DOUBLINGS. 0
   * after one was answered in the time of other calls, and after a new leader. For each, the time
   * for a keepalive doubles: etcd may be slow with keepalives only. */
  int n_late;
  bool is_alone; /* there is no other member */
  TAILQ_HEAD(el_health_calls, el_health_call)
  pending; /* calls that have no answer yet */
};

/* el_health_init prepares |health|. @thread io */
void el_health_init(el_health *health, el_timers *timers,
                    bool (*is_connected)(el_health *health),
                    bool (*is_overtaken)(el_health *health),
                    bool (*is_unresponsive)(el_health *health),
                    void (*on_unresponsive)(el_health *health),
                    void (*on_late_keepalive)(el_health *health));

/* el_health_call_started adds |call|, which was just sent, or waits for the connection if not
 * |is_connected|. @thread io */
void el_health_call_started(el_health *health, el_health_call *call,
                            bool is_connected);

/* el_health_heard counts as an answer to a call, for example while the client is connecting.
 * @thread io */
void el_health_heard(el_health *health);

/* el_health_answered records an answer that has taken |took_ms|. @thread io */
void el_health_answered(el_health *health, int64_t took_ms);

/* el_health_moved records that another member, or another connection, is in use from now on.
 * @thread io */
void el_health_moved(el_health *health);

/* el_health_limit_ms returns how long an answer may take: what el_patience_ms returns. If there is
 * no other member, EL_ALONE_FACTOR lengthens that, but not beyond EL_ALONE_MOST_MS. @thread io */
int64_t el_health_limit_ms(const el_health *health);

/* el_health_was_silent tells whether no answer has come for as long as one may take, and a call
 * that began at |begun_ms| has waited for so long. @thread io */
bool el_health_was_silent(const el_health *health, int64_t begun_ms);

/* el_health_restart cancels the pending calls, except keepalives, so that their callers send
 * them again, and forgets how often the limit has passed. @thread io */
void el_health_restart(el_health *health);

/* el_health_connected records that a connection to the member took |took_ms|. @thread io */
void el_health_connected(el_health *health, int64_t took_ms);

/* el_health_call_ended removes |call|, and does no harm if |call| was cancelled or never added.
 * |is_answered| tells that the member in use has answered |call|. @thread io */
void el_health_call_ended(el_health *health, el_health_call *call,
                          bool is_answered);

/* el_health_destroy stops the check. @thread io */
void el_health_destroy(el_health *health);

#endif
