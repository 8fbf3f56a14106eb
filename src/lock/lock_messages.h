/* lock_messages: why waits fail and holds end: it finds the cause and writes the message. Each
 * function fills |err|. */
#ifndef ETCDLOCK_LOCK_LOCK_MESSAGES_H
#define ETCDLOCK_LOCK_LOCK_MESSAGES_H

#include "base/error.h"
#include "lock/entry.h"
#include "lock/waiter.h"

/* ---- waits ---- */

/* el_lock_message_timeout says that the wait timed out, after waiter->timeout_ms. A wait without a
 * timeout of its own times out if etcd has never answered. @thread io */
void el_lock_message_timeout(const el_waiter *waiter, el_error *err);

/* el_lock_message_failed says that the wait failed for |why|. EL_ENTRY_REFUSED: etcd may also have
 * refused to grant a lease. @thread io */
void el_lock_message_failed(const el_waiter *waiter, el_entry_failure why,
                            el_error *err);

/* el_lock_message_locked_here says that a try failed because a waiter of this client has the lock,
 * or joined earlier. @thread io */
void el_lock_message_locked_here(const el_waiter *waiter, el_error *err);

/* el_lock_message_cancelled says that the caller cancelled the wait. @thread any */
void el_lock_message_cancelled(const el_waiter *waiter, el_error *err);

/* ---- holds ---- */

/* el_lock_message_lost says that the hold was lost, for |loss|. @thread any */
void el_lock_message_lost(const el_waiter *waiter, el_loss loss, el_error *err);

/* el_lock_message_refused says that etcd refused the request of a wait or a release. |cause| is the
 * error of etcd; NULL: it is not known. @thread any */
void el_lock_message_refused(const el_waiter *waiter, const el_error *cause,
                             el_error *err);

/* el_lock_message_key_gone says that the key was gone before it was released. @thread any */
void el_lock_message_key_gone(const el_waiter *waiter, el_error *err);

/* el_lock_message_unconfirmed says that the client was closed before etcd confirmed the release.
 * @thread any */
void el_lock_message_unconfirmed(const el_waiter *waiter, el_error *err);

#endif
