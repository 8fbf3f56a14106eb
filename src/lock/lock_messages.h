/* lock_messages: the messages of failed waits and ended holds. Each function fills |err|. */
#ifndef ETCDLOCK_LOCK_LOCK_MESSAGES_H
#define ETCDLOCK_LOCK_LOCK_MESSAGES_H

#include "base/error.h"
#include "lock/waiter.h"

/* ---- waits ---- */

/* el_lock_message_timeout: the wait timed out after |waited_ms|; without a timeout of its own, for
 * want of a first answer. |cause| is the last error, or NULL; |address| is the member in use if
 * etcd has not answered meanwhile, else NULL. @thread any */
void el_lock_message_timeout(const el_waiter *waiter, int64_t waited_ms,
                             const el_error *cause, const char *address,
                             el_error *err);

/* el_lock_message_refused: etcd refused the request, for |cause| or for an unknown reason (NULL).
 * @thread any */
void el_lock_message_refused(const el_waiter *waiter, const el_error *cause,
                             el_error *err);

/* el_lock_message_unreachable: etcd is unreachable, as |unreachable| says. @thread any */
void el_lock_message_unreachable(const el_waiter *waiter,
                                 const el_error *unreachable, el_error *err);

/* el_lock_message_lock_delays: the client has |most| other lock delays in use. @thread any */
void el_lock_message_lock_delays(const el_waiter *waiter, int64_t lock_delay_ms,
                                 int most, el_error *err);

/* el_lock_message_cancelled: the caller cancelled the wait. @thread any */
void el_lock_message_cancelled(const el_waiter *waiter, el_error *err);

/* el_lock_message_locked: another owner has the lock, or waiting would be a deadlock. @thread any
 */
void el_lock_message_locked(const el_waiter *waiter, el_error *err);

/* el_lock_message_key_lost: the key was deleted while the caller waited. @thread any */
void el_lock_message_key_lost(const el_waiter *waiter, el_error *err);

/* ---- holds ---- */

/* el_lock_message_lost: the hold was lost, for |loss|. @thread any */
void el_lock_message_lost(const el_waiter *waiter, el_loss loss, el_error *err);

/* el_lock_message_key_gone: the key was gone before the release. @thread any */
void el_lock_message_key_gone(const el_waiter *waiter, el_error *err);

/* el_lock_message_unconfirmed: the client was closed before etcd confirmed the release. @thread any
 */
void el_lock_message_unconfirmed(const el_waiter *waiter, el_error *err);

#endif
