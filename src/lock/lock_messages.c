/* lock_messages: why waits fail and holds end. */
#include "lock/lock_messages.h"

#include <stdio.h>
#include <string.h>

#include "lock/local_queue_int.h"
#include "lock/request_queue.h"

/* Largest number of bytes of a lock name that a message shows. */
enum { SHOWN_MAX = 80 };

/* The lock as messages name it: lock "name", or semaphore "name". A name that is cut is followed by
 * three dots: lock "start of the name"... */
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

/* ---- causes of failed waits ---- */

static el_session *session_of(const el_waiter *waiter) {
  return el_local_queue_session(waiter->queue);
}

/* Returns the error that has kept |waiter|, which waits since |since_ms| (el_now_ms; 0: unknown),
 * from a grant. It is the last error of the entry |at| (NULL: no entry), else that of the session,
 * else that of the last attempt to reach etcd. NULL: there is no such error. */
static const el_error *find_last_error(const el_waiter *waiter,
                                       const el_local_entry *at,
                                       int64_t since_ms) {
  const el_session *session = session_of(waiter);
  const el_error *cause;
  if (at != NULL && at->entry.last_error != NULL) return at->entry.last_error;
  cause = el_session_last_error(session, since_ms);
  if (cause == NULL && el_contact_is_lost(&session->shared->contact)) {
    cause = &session->shared->contact.error;
  }
  return cause;
}

/* Returns the entry of |waiter|. If |waiter| has no entry yet, returns the first entry of the
 * queue. NULL: the queue has no entry. */
static const el_local_entry *awaited_entry(const el_waiter *waiter) {
  return waiter->entry != NULL ? waiter->entry
                               : TAILQ_FIRST(&waiter->queue->entries);
}

/* Tells whether a hold of this client by the entry |at| blocks |waiter|. No such hold blocks a
 * reader, because readers share the key. */
static bool is_held_here(const el_waiter *waiter, const el_local_entry *at) {
  const el_waiter *first = at != NULL ? TAILQ_FIRST(&at->waiters) : NULL;
  return waiter->mode != EL_MODE_READ && first != NULL &&
         first->state == EL_WAITER_HOLDING;
}

/* Tells whether a hold of |queue| has ended since |ms|, which must be at most 24 days ago. |ms| 0:
 * whether one has ended at all. */
static bool was_held_since(const el_local_queue *queue, int64_t ms) {
  return queue->was_held &&
         (ms == 0 || (int32_t)(queue->held_ms - (uint32_t)ms) > 0);
}

/* Returns when |waiter| began to wait (el_now_ms); 0: it has no timeout. */
static int64_t wait_began_ms(const el_waiter *waiter) {
  return waiter->deadline_ms == INT64_MAX
             ? 0
             : waiter->deadline_ms - waiter->timeout_ms;
}

/* Tells whether etcd has answered since |waiter| began to wait. The result is also true in two
 * cases in which no request was needed. First, a hold of the same queue has ended since. Second,
 * the entry |at| knows its predecessor, and watches it. (If the last waiter of |at| has just left,
 * |at| is RELEASING, and |waiter| waits for its end.) */
static bool has_answered(const el_waiter *waiter, const el_local_entry *at) {
  int64_t since_ms = wait_began_ms(waiter);
  const el_entry *entry = at != NULL ? &at->entry : NULL;
  bool is_behind =
      entry != NULL && entry->predecessor.rev != 0 &&
      (entry->state == EL_ENTRY_WAITING || entry->state == EL_ENTRY_RELEASING);
  return is_behind || was_held_since(waiter->queue, since_ms) ||
         session_of(waiter)->shared->contact.reached_ms > since_ms;
}

/* Returns how many entries of |queue| show that the lock is taken. Such an entry is held, or waits
 * for another key, or keeps its key for a lock delay. */
static unsigned count_known_holders(const el_local_queue *queue) {
  const el_local_entry *at;
  unsigned n = 0;
  TAILQ_FOREACH(at, &queue->entries, link) {
    el_entry_state state = at->entry.state;
    n += at->entry.is_in_lock_delay ||
         (!TAILQ_EMPTY(&at->waiters) &&
          (state == EL_ENTRY_HELD || state == EL_ENTRY_WAITING));
  }
  return n;
}

/* ---- waits ---- */

/* Only an answer of etcd can say that the lock was not free. Without such an answer, or after a
 * failed attempt, the message shows the last error instead, so that an outage is not blamed on a
 * holder. |address| is the member in use if etcd has not answered since the wait began, else
 * NULL. */
static void write_timeout(const el_waiter *waiter, const el_error *cause,
                          const char *address, el_error *err) {
  double waited_s = (double)waiter->timeout_ms / 1000;
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

/* A try that timed out got no answer to its own request. Answers to the requests of other waiters
 * do not count for it. */
void el_lock_message_timeout(const el_waiter *waiter, el_error *err) {
  const el_local_entry *at = awaited_entry(waiter);
  bool is_held = !waiter->try_once && is_held_here(waiter, at);
  const el_error *cause =
      is_held ? NULL : find_last_error(waiter, at, wait_began_ms(waiter));
  /* the entry of another waiter may show that the lock is taken */
  bool is_answered =
      !waiter->try_once && (is_held || has_answered(waiter, at) ||
                            count_known_holders(waiter->queue) > 0);
  const el_shared *shared = session_of(waiter)->shared;
  const char *address = el_request_queue_address(shared->requests);
  el_error no_token;
  if (cause == NULL && !is_answered &&
      el_auth_explain_wait(shared->auth, &no_token)) {
    cause = &no_token;
  }
  write_timeout(waiter, cause, is_answered ? NULL : address, err);
}

static void say_locked(const el_waiter *waiter, el_error *err) {
  if (waiter->is_share_only && !waiter->try_once) {
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

static void say_key_lost(const el_waiter *waiter, el_error *err) {
  el_error_set(err, EL_LOST,
               "%s: the waiter's key was deleted during the wait; call again",
               subject_of(waiter).text);
}

void el_lock_message_failed(const el_waiter *waiter, el_entry_failure why,
                            el_error *err) {
  switch (why) {
    case EL_ENTRY_LOCKED:
      say_locked(waiter, err);
      return;
    case EL_ENTRY_REFUSED:
      el_lock_message_refused(waiter, find_last_error(waiter, waiter->entry, 0),
                              err);
      return;
    case EL_ENTRY_KEY_LOST:
      say_key_lost(waiter, err);
      return;
  }
}

/* If the other waiters have no answer from etcd, the lock may be free. The message then gives the
 * error that kept them from an answer. */
void el_lock_message_locked_here(const el_waiter *waiter, el_error *err) {
  unsigned most = waiter->mode == EL_MODE_PERMIT ? waiter->permits : 1;
  const el_error *doubt = count_known_holders(waiter->queue) >= most
                              ? NULL
                              : find_last_error(waiter, NULL, 0);
  if (doubt != NULL) {
    el_error_set(err, EL_UNAVAILABLE, "%s: %s", subject_of(waiter).text,
                 doubt->text);
  } else {
    say_locked(waiter, err);
  }
}

void el_lock_message_cancelled(const el_waiter *waiter, el_error *err) {
  el_error_set(err, EL_CANCELLED, "%s: the wait was cancelled",
               subject_of(waiter).text);
}

/* ---- holds ---- */

void el_lock_message_lost(const el_waiter *waiter, el_loss loss,
                          el_error *err) {
  el_error_set(err, EL_LOST, "%s was lost: %s", subject_of(waiter).text,
               el_losses[loss].text);
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
