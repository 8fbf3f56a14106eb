/* error: error codes, messages, and what they mean for the caller.
 *
 * An el_error is the caller's memory: to report an error allocates nothing. The
 * text is written where the failure occurs, and passed on unchanged.
 */
#ifndef ETCDLOCK_BASE_ERROR_H
#define ETCDLOCK_BASE_ERROR_H

#include <stdbool.h>
#include <stdint.h>

/* el_code is the third result of a failed call in Lua, as a string
 * (el_code_str). */
typedef enum el_code {
  EL_OK,
  EL_TIMEOUT,         /* the lock did not become free within the timeout */
  EL_LOCKED,          /* try_lock: another owner holds the lock or waits */
  EL_DEADLOCK,        /* this wait could never end */
  EL_NOT_HELD,        /* nothing to release, or the token is not the holder's */
  EL_LOST,            /* the lock was held, but is not any more */
  EL_CANCELLED,       /* the caller cancelled the wait */
  EL_CLOSED,          /* the client is closed */
  EL_UNAVAILABLE,     /* etcd cannot be reached, or cannot answer now */
  EL_UNAUTHENTICATED, /* etcd requires a user, or rejects this one */
  EL_DENIED,          /* this user may not access this key */
  EL_NO_SPACE,        /* etcd's database is full */
  EL_INVALID,         /* the request or an option is invalid */
  EL_CONFLICT,        /* the object exists with other properties */
  EL_CONTEXT,         /* the call is not possible in this place */
  EL_FORKED,          /* the handle belongs to the parent process */
  EL_PROTOCOL,        /* the server does not speak etcd's v3 API */
  EL_NOMEM            /* no memory, or a resource limit is reached */
} el_code;

/* el_error is the result of a call or a request: a code, properties and a
 * message. EL_OK: success; the other fields then mean nothing. */
typedef struct el_error {
  el_code code;
  bool is_definite;      /* etcd has certainly not applied the request, and will
                            not; false: it may have */
  bool is_retriable;     /* the same request may succeed later */
  bool is_lease_gone;    /* etcd does not know the lease (any more) */
  bool is_token_bad;     /* etcd rejects the auth token and requires another */
  bool is_auth_off;      /* authentication is disabled in etcd: no tokens */
  bool is_unanswered;    /* no answer came before the deadline */
  bool has_other_member; /* another member can be asked at once */
  bool is_unexplained;   /* the connection failed; the cause is not known yet */
  bool is_unsent;        /* there was no connection: the request was not sent */
  char text[256];        /* the message, one line */
} el_error;

/* el_outcome is how a request ended, reduced to what decides the next step. */
typedef struct el_outcome {
  bool is_done; /* etcd applied the request and answered */
  /* If not |is_done|, as in el_error: */
  bool is_definite, is_retriable, has_other_member;
  int64_t sent_ms; /* when the request was sent, by el_now_ms */
} el_outcome;

/* el_outcome_of returns the outcome of a request that ended with |err| (EL_OK:
 * success) and was sent at |sent_ms|. @thread any */
el_outcome el_outcome_of(const el_error *err, int64_t sent_ms);

/* el_outcome_is_final returns whether etcd rejected the request and would
 * reject it again. @thread any */
bool el_outcome_is_final(const el_outcome *outcome);

/* el_code_str returns |code| as Lua programs see it: "timeout", "lost", ... The
 * string is static. @thread any */
const char *el_code_str(el_code code);

/* el_error_set fills |err| with |code| and a printf-style message: definite,
 * not retriable. Control characters are escaped (text.h), so the message is one
 * line. @thread any */
void el_error_set(el_error *err, el_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* el_error_from_status fills |err| from a gRPC call that failed. |status| is
 * the gRPC status number, |details| the text of the server or of gRPC (not
 * NULL), |endpoint| the address of the member. The rules are the table in
 * error.c. @thread any */
void el_error_from_status(el_error *err, int status, const char *details,
                          const char *endpoint);

#endif
