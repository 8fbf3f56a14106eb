/* error: error codes, messages, and what they mean for the caller.
 *
 * The caller provides the memory of an el_error, so to report an error allocates nothing. The
 * message is written where the failure occurs, and passed on unchanged.
 */
#ifndef ETCDLOCK_BASE_ERROR_H
#define ETCDLOCK_BASE_ERROR_H

#include <stdbool.h>
#include <stdint.h>

/* el_code is an error code. In Lua it is the third result of a failed call, as a string
 * (el_code_str). */
typedef enum el_code {
  EL_OK,
  EL_TIMEOUT,         /* what was awaited did not come within the timeout */
  EL_LOCKED,          /* a try: another owner holds the lock or waits */
  EL_DEADLOCK,        /* the wait could never end */
  EL_NOT_HELD,        /* the lock is not held, or not with this token */
  EL_LOST,            /* a hold was lost, or the key of a waiter was deleted */
  EL_CANCELLED,       /* the caller gave up the wait or the transaction */
  EL_CLOSED,          /* the client is closed */
  EL_UNAVAILABLE,     /* etcd cannot be reached, or cannot answer now */
  EL_UNAUTHENTICATED, /* etcd requires a user, or rejects this one */
  EL_DENIED,          /* this user lacks a permission */
  EL_NO_SPACE,        /* etcd's database is full */
  EL_INVALID,         /* the request or an option is invalid */
  /* another etcd cluster answers, or an earlier state of this one; or the lease ID is taken */
  EL_CONFLICT,
  EL_CONTEXT,  /* the call is not possible in this context */
  EL_FORKED,   /* this is a fork of the process that connected */
  EL_PROTOCOL, /* the answer is not one of etcd's v3 API */
  EL_NOMEM     /* no memory, or a resource limit is reached */
} el_code;

/* el_error is the result of a call or a request: a code, properties and a message. If the code is
 * EL_OK, the call succeeded, and the other fields have no meaning. */
typedef struct el_error {
  el_code code;
  /* etcd has certainly not applied the request, and never will; false: it may have, or may yet */
  bool is_definite;
  bool is_retriable;  /* the same request may succeed later */
  bool is_lease_gone; /* etcd does not know the lease (any more) */
  /* etcd rejects the request because its token is invalid or missing; a new token may help */
  bool is_token_bad;
  /* authentication is disabled in etcd, so no token is needed */
  bool is_auth_off;
  /* no answer came before the deadline, or within the limit of the health check */
  bool is_unanswered;
  bool is_busy; /* etcd answers other calls, but computes password hashes */
  /* etcd has applied the request, but the answer exceeds the size limit of a message */
  bool is_too_large;
  /* a proxy may have ended the call because the client has sent too much in it */
  bool is_over_limit;
  bool is_compacted;   /* the read was of a revision that etcd has compacted */
  bool has_new_leader; /* the member has just learned who leads */
  /* the request can be sent again at once: another member or another leader may answer it */
  bool has_other_member;
  bool is_from_etcd; /* the text is an answer of etcd's server */
  /* the connection may have failed; a diagnosis may find the cause */
  bool is_unexplained;
  /* the request was not sent, because there was no connection */
  bool is_unsent;
  char text[256]; /* the message, one line */
} el_error;

/* el_outcome tells how a request ended, as far as it decides the next step. */
typedef struct el_outcome {
  bool is_done; /* etcd applied the request and answered */
  /* the same as in el_error; meaningless if |is_done| */
  bool is_definite, is_retriable, has_other_member;
  int64_t sent_ms; /* when the request was sent, by el_now_ms */
} el_outcome;

/* el_outcome_of returns the outcome of a request that was sent at |sent_ms| and ended with |err|
 * (EL_OK: success). @thread any */
el_outcome el_outcome_of(const el_error *err, int64_t sent_ms);

/* el_outcome_is_final returns whether the request was certainly not applied and would fail again.
 * @thread any */
bool el_outcome_is_final(const el_outcome *outcome);

/* el_code_str returns |code| as Lua programs see it: "timeout", "lost", ... The
 * string is static. @thread any */
const char *el_code_str(el_code code);

/* el_error_set fills |err| with |code| and a printf-style message. The error is definite and not
 * retriable. Control characters are escaped (text.h), so the message is one line. @thread any */
void el_error_set(el_error *err, el_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* el_error_from_status fills |err| for a gRPC call that failed. |status| is the gRPC status number.
 * |details| is the text that came with it, from the server or from gRPC, and not NULL. |endpoint|
 * is the address of the member. The table |rules| in error.c classifies the error. @thread any */
void el_error_from_status(el_error *err, int status, const char *details,
                          const char *endpoint);

#endif
