/* lock_messages: what an owner is told when its wait fails or its hold ends. */
#include "lock/lock_messages.h"

#include <stdio.h>
#include <string.h>

/* So many bytes of names are shown. */
enum { SHOWN_MAX = 80 };

/* What an owner wants: "lock "name"". */
typedef struct subject {
  char text[2 * SHOWN_MAX + 20];
} subject;

static subject subject_of(const el_waiter *owner) {
  bool is_permit = owner->mode == EL_MODE_PERMIT;
  el_bytes name = owner->name;
  subject of;
  int len = snprintf(of.text, sizeof of.text, "%s \"",
                     is_permit ? "semaphore" : "lock");
  if (name.len > SHOWN_MAX) name.len = SHOWN_MAX;
  for (size_t i = 0; i < name.len; i++) {
    char c = name.data[i];
    if (c == '"' || c == '\\') of.text[len++] = '\\';
    of.text[len++] = (char)(c != '\0' ? c : ' '); /* between several names */
  }
  strcpy(of.text + len, "\"");
  return of;
}

/* ---- waits ---- */

/* "It was not free" is an answer of etcd's. Where none has come for all that time,
 * or where the last attempt has failed, nobody knows whether it was: then what
 * stands in the way is told, or those who ask would blame a holder for an outage. */
void el_lock_message_timeout(const el_waiter *owner, int64_t waited_ms,
                             const el_error *cause, const char *address,
                             el_error *err) {
  double waited_s = (double)waited_ms / 1000;
  if (cause != NULL) {
    el_error_set(err, EL_UNAVAILABLE, "%s not taken in %.3g s: %s",
                 subject_of(owner).text, waited_s, cause->text);
  } else if (address != NULL) {
    el_error_set(err, EL_UNAVAILABLE,
                 "%s not taken in %.3g s: no answer from etcd %s",
                 subject_of(owner).text, waited_s, address);
  } else {
    el_error_set(err, EL_TIMEOUT, "%s was not free within %.3g s",
                 subject_of(owner).text, waited_s);
  }
}

void el_lock_message_refused(const el_waiter *owner, const el_error *cause,
                             el_error *err) {
  el_error_set(err, cause != NULL ? cause->code : EL_UNAVAILABLE, "%s: %s",
               subject_of(owner).text,
               cause != NULL ? cause->text : "etcd refused it");
}

void el_lock_message_away(const el_waiter *owner, const el_error *away,
                          el_error *err) {
  el_error_set(err, EL_UNAVAILABLE, "%s: %s", subject_of(owner).text,
               away->text);
}

void el_lock_message_lock_delays(const el_waiter *owner, int64_t lock_delay_ms,
                                 int most, el_error *err) {
  el_error_set(
      err, EL_INVALID,
      "%s: this client has locks with %d other lock delays than %g s, and "
      "can't have more at a time",
      subject_of(owner).text, most, (double)lock_delay_ms / 1000);
}

void el_lock_message_cancelled(const el_waiter *owner, el_error *err) {
  el_error_set(err, EL_CANCELLED, "the wait for %s was given up",
               subject_of(owner).text);
}

void el_lock_message_locked(const el_waiter *owner, el_error *err) {
  if (owner->local.must_share && !owner->local.try_once) {
    el_error_set(err, EL_DEADLOCK,
                 "%s is wanted by a writer who waits for a reader of "
                 "this program, which can't release it while this "
                 "one waits",
                 subject_of(owner).text);
  } else if (owner->mode == EL_MODE_PERMIT) {
    el_error_set(err, EL_LOCKED, "%s has no free permit",
                 subject_of(owner).text);
  } else {
    el_error_set(err, EL_LOCKED, "%s is held by somebody else",
                 subject_of(owner).text);
  }
}

void el_lock_message_place_lost(const el_waiter *owner, el_error *err) {
  el_error_set(
      err, EL_LOST,
      "%s: our key in the queue was deleted, or our lease ended, while "
      "we waited",
      subject_of(owner).text);
}

/* ---- holds ---- */

void el_lock_message_lost(const el_waiter *owner, el_loss loss, el_error *err) {
  el_error_set(err, EL_LOST, "%s was lost: %s", subject_of(owner).text,
               el_losses[loss].text);
}

void el_lock_message_gone(const el_waiter *owner, el_error *err) {
  el_error_set(err, EL_LOST, "%s: the key was gone before it was released",
               subject_of(owner).text);
}

void el_lock_message_unconfirmed(const el_waiter *owner, el_error *err) {
  el_error_set(err, EL_CLOSED,
               "%s: the client was closed before etcd confirmed the "
               "release",
               subject_of(owner).text);
}
