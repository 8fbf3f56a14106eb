/* lock_messages: the messages of failed waits and ended holds. Each function fills |err|. */
#ifndef ETCDLOCK_LOCK_LOCK_MESSAGES_H
#define ETCDLOCK_LOCK_LOCK_MESSAGES_H

#include "base/error.h"
#include "lock/waiter.h"

/* ---- waits ---- */

/* el_lock_message_timeout says that the wait timed out after |waited_ms|. A wait without a timeout
 * of its own times out if etcd has never answered. |cause| is the last error, or NULL. |address| is
 * the member in use if etcd has not answered since the wait began, else NULL. @thread any */
void el_lock_message_timeout(const el_waiter *waiter, int64_t waited_ms,
                             const el_error *cause, const char *address,
                             el_error *err);

/* el_lock_message_refused says that etcd refused the request of a wait or a release. |cause| is the
 * error of etcd; NULL: it is not known. @thread any */
void el_lock_message_refused(const el_waiter *waiter, const el_error *cause,
                             el_error *err);

/* el_lock_message_unreachable says that etcd is unreachable, with the text of |unreachable|.
 * @thread any */
void el_lock_message_unreachable(const el_waiter *waiter,
                                 const el_error *unreachable, el_error *err);

/* el_lock_message_cancelled says that the caller cancelled the wait. @thread any */
void el_lock_message_cancelled(const el_waiter *waiter, el_error *err);

/* el_lock_message_locked says that another owner or client has the lock, or that waiting for it
 * would be a deadlock. @thread any */
void el_lock_message_locked(const el_waiter *waiter, el_error *err);

/* el_lock_message_key_lost says that the waiter's key was deleted, or the lease ended, during the
 * wait. @thread any */
void el_lock_message_key_lost(const el_waiter *waiter, el_error *err);

/* ---- holds ---- */

/* el_lock_message_lost says that the hold was lost, for |loss|. @thread any */
void el_lock_message_lost(const el_waiter *waiter, el_loss loss, el_error *err);

/* el_lock_message_key_gone says that the key was gone before it was released. @thread any */
void el_lock_message_key_gone(const el_waiter *waiter, el_error *err);

/* el_lock_message_unconfirmed says that the client was closed before etcd confirmed the release.
 * @thread any */
void el_lock_message_unconfirmed(const el_waiter *waiter, el_error *err);

#endif
