/* local_queues: the local queues of one client, with their entries, sessions and timers.
 *
 * What is decided about owners is decided in rules/local_queue.h; this drives it: the actions
 * of a queue become events of entries, watches and timers, and what owners are told. I/O thread
 * only.
 */
#ifndef ETCDLOCK_LOCK_LOCAL_QUEUES_H
#define ETCDLOCK_LOCK_LOCAL_QUEUES_H

#include <stdbool.h>
#include <stdint.h>

#include "lock/entry_driver.h"
#include "lock/sessions.h"
#include "lock/waiter.h"

enum {
  /* A client that never reached its etcd says so after this to those who wait
   * without a time limit: a wrong address should be told, not waited for. */
  EL_FIRST_CONTACT_MS = 5000
};

/* All queues of one client. */
typedef struct el_local_queues el_local_queues;

/* |limits| hold for handoffs. @thread io */
el_local_queues *el_local_queues_new(el_sessions *sessions,
                                     const el_turn_limits *limits);

/* Whatever is in there is forgotten. @thread io */
void el_local_queues_free(el_local_queues *queues);

/* ---- owners ---- */

/* Puts |owner| into the queue of its name, where it stays until it is
 * forgotten. If it holds and crashes, nobody follows it sooner than after |lock_delay_ms|.
 * @thread io */
void el_waiter_join(el_waiter *owner, el_local_queues *queues,
                    int64_t lock_delay_ms);

/* Takes |owner| out, for |loss| if its hold is lost. Harmless if it is out.
 * @thread io */
void el_waiter_leave(el_waiter *owner, el_leave how, el_loss loss);

/* Does |owner| hold? @thread io */
bool el_waiter_is_holding(const el_waiter *owner);

/* The hard end of |owner|'s hold was moved. @thread io */
void el_waiter_move_max_hold_end(el_waiter *owner);

/* The hold of |owner|, a writer's, is a reader's from now on. @thread io */
void el_waiter_downgrade(el_waiter *owner);

/* Another request of |owner| found no key of ours with |rev|, or it |detached|. @thread io */
void el_waiter_key_gone(el_waiter *owner, int64_t rev, bool detached);

/* ---- what the news of a session mean to its queues ---- */

/* It is another cluster, |err| says which: everybody fails, holders lose, and so
 * do those whose release is not confirmed yet. @thread io */
void el_local_queues_leave(el_local_queues *queues, const el_error *err);

/* Fails everybody with |err|, and whoever joins from now on. @thread io */
void el_local_queues_close(el_local_queues *queues, const el_error *err);

/* Its claim has lapsed: holds are lost. @thread io */
void el_local_queues_lapse(el_local_queues *queues,
                           const el_entry_world *world);

/* It is dead, and its keys with it. @thread io */
void el_local_queues_bury(el_local_queues *queues, const el_entry_world *world,
                          el_session_end end);

/* |lease|, one of theirs, has |key|; one that nobody wants is taken out. @thread io */
void el_local_queues_find_key(el_local_queues *queues, int64_t lease,
                              el_bytes key);

/* No lease is to be had, for |err|: whoever waits for one fails. @thread io */
void el_local_queues_refuse(el_local_queues *queues,
                            const el_entry_world *world, const el_error *err);

/* etcd is out of reach, for |away|: whoever waits fails. @thread io */
void el_local_queues_fail_waiting(el_local_queues *queues,
                                  const el_error *away);

/* There is a lease: whose turn is it? @thread io */
void el_local_queues_begin(el_local_queues *queues,
                           const el_entry_world *world);

/* Gives the turn to the next ones where something has changed. Where somebody needs a
 * session, its |wanted| says so. @thread io */
void el_local_queues_settle(el_local_queues *queues);

/* Has nothing changed since? @thread io */
bool el_local_queues_are_settled(const el_local_queues *queues);

/* For figures: the bytes of the structs of one name, whose key is watched.
 * @thread any */
size_t el_local_queue_size(void);

#endif
