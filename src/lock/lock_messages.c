/* lock_messages: the messages of failed waits and ended holds. */
#include "lock/lock_messages.h"

#include <stdio.h>
#include <string.h>

/* Largest number of bytes of a lock name that a message shows. */
enum { SHOWN_MAX = 80 };

/* The lock as messages name it: lock "name"; if the name is cut: lock "start of the name"... */
typedef struct subject {
  char text[2 * SHOWN_MAX + 20];
} subject;

static subject subject_of(const el_waiter *waiter) {
  bool is_permit = waiter->mode == EL_MODE_PERMIT;
  bool is_cut = waiter->name.len > SHOWN_MAX;
  size_t n = is_cut ? SHOWN_MAX : waiter->name.len;
  subject of;
  int len = snprintf(of.text, sizeof of.text, "%s \"",
                     is_permit ? "semaphore" : "lock");
  for (size_t i = 0; i < n; i++) {
    char c = waiter->name.data[i];
    if (c == '"' || c == '\\') of.text[len++] = '\\';
    /* NUL separates the names of a multi-lock */
    of.text[len++] = (char)(c != '\0' ? c : ' ');
  }
  strcpy(of.text + len, is_cut ? "\"..." : "\"");
  return of;
}

/* ---- waits ---- */

/* Only an answer of etcd can say that the lock was not free. Without such an answer, or after a
 * failed attempt, the message shows the last error instead, so that an outage is not blamed on a
 * holder. */
void el_lock_message_timeout(const el_waiter *waiter, int64_t waited_ms,
                             const el_error *cause, const char *address,
                             el_error *err) {
  double waited_s = (double)waited_ms / 1000;
  const char *hint =
      waiter->deadline_ms == INT64_MAX
          ? " (a wait without a timeout ends if etcd has never answered)"
          : "";
  if (cause != NULL) {
    el_error_set(err, EL_UNAVAILABLE, "%s was not acquired within %.3g s: %s%s",
                 subject_of(waiter).text, waited_s, cause->text, hint);
  } else if (address != NULL) {
    el_error_set(err, EL_UNAVAILABLE,
                 "%s was not acquired within %.3g s: no answer from etcd %s%s",
                 subject_of(waiter).text, waited_s, address, hint);
  } else {
    el_error_set(err, EL_TIMEOUT, "%s was not free within %.3g s",
                 subject_of(waiter).text, waited_s);
  }
}

void el_lock_message_refused(const el_waiter *waiter, const el_error *cause,
                             el_error *err) {
  el_code code = cause != NULL ? cause->code : EL_UNAVAILABLE;
  el_error_set(err, code, "%s: %s%s", subject_of(waiter).text,
               cause != NULL ? cause->text : "etcd refused the request",
               code == EL_DENIED
                   ? "; the user needs readwrite for the keys below this name"
                   : "");
}

void el_lock_message_unreachable(const el_waiter *waiter,
                                 const el_error *unreachable, el_error *err) {
  el_error_set(err, EL_UNAVAILABLE, "%s: %s", subject_of(waiter).text,
               unreachable->text);
}

void el_lock_message_cancelled(const el_waiter *waiter, el_error *err) {
  el_error_set(err, EL_CANCELLED, "%s: the wait was cancelled",
               subject_of(waiter).text);
}

void el_lock_message_locked(const el_waiter *waiter, el_error *err) {
  if (waiter->local.is_share_only && !waiter->local.try_once) {
    el_error_set(err, EL_DEADLOCK,
                 "%s: a writer waits behind a read hold of this program; "
                 "this read lock would deadlock",
                 subject_of(waiter).text);
  } else if (waiter->mode == EL_MODE_PERMIT) {
    el_error_set(err, EL_LOCKED, "%s has no free permit",
                 subject_of(waiter).text);
  } else {
    el_error_set(err, EL_LOCKED, "%s is taken", subject_of(waiter).text);
  }
}

void el_lock_message_key_lost(const el_waiter *waiter, el_error *err) {
  el_error_set(
      err, EL_LOST,
      "%s: the waiter's key was deleted, or the client's lease ended, during "
      "the wait",
      subject_of(waiter).text);
}

/* ---- holds ---- */

void el_lock_message_lost(const el_waiter *waiter, el_loss loss,
                          el_error *err) {
  el_error_set(err, EL_LOST, "%s was lost: %s", subject_of(waiter).text,
               el_losses[loss].text);
}

void el_lock_message_key_gone(const el_waiter *waiter, el_error *err) {
  el_error_set(err, EL_LOST, "%s: the key was gone before it was released",
               subject_of(waiter).text);
}

void el_lock_message_unconfirmed(const el_waiter *waiter, el_error *err) {
  el_error_set(err, EL_CLOSED,
               "%s: the client was closed before etcd confirmed the "
               "release",
               subject_of(waiter).text);
}
