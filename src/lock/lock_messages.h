/* lock_messages: what an owner is told when its wait fails or its hold ends. Each fills |err|.
 */
#ifndef ETCDLOCK_LOCK_LOCK_MESSAGES_H
#define ETCDLOCK_LOCK_LOCK_MESSAGES_H

#include "base/error.h"
#include "lock/waiter.h"

/* ---- waits ---- */

/* |waited_ms| have passed. |cause| is what stood in the way last, or NULL; |address| is the
 * member in use if etcd has not answered in all that time, or NULL. @thread any */
void el_lock_message_timeout(const el_waiter *owner, int64_t waited_ms,
                             const el_error *cause, const char *address,
                             el_error *err);

/* etcd refused it, for |cause|, or NULL. @thread any */
void el_lock_message_refused(const el_waiter *owner, const el_error *cause,
                             el_error *err);

/* etcd is out of reach, for |away|. @thread any */
void el_lock_message_away(const el_waiter *owner, const el_error *away,
                          el_error *err);

/* This client has |most| other lock delays in use, and can't have more. @thread any */
void el_lock_message_lock_delays(const el_waiter *owner, int64_t lock_delay_ms,
                                 int most, el_error *err);

/* Its owner wants no more. @thread any */
void el_lock_message_cancelled(const el_waiter *owner, el_error *err);

/* Another owner has the lock. @thread any */
void el_lock_message_locked(const el_waiter *owner, el_error *err);

/* Our key is gone. @thread any */
void el_lock_message_place_lost(const el_waiter *owner, el_error *err);

/* ---- holds ---- */

/* The hold was lost. @thread any */
void el_lock_message_lost(const el_waiter *owner, el_loss loss, el_error *err);

/* Its key was gone before its release. @thread any */
void el_lock_message_gone(const el_waiter *owner, el_error *err);

/* The client was closed before etcd confirmed its release. @thread any */
void el_lock_message_unconfirmed(const el_waiter *owner, el_error *err);

#endif
