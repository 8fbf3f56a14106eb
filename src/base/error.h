/* error: what went wrong, as a stable code for programs and a text for
 * people, and what a caller may conclude from it.
 *
 * Errors live in the caller's memory: no allocation on the way out of a
 * failure. A text is written once, where the failure happens, and passed on.
 */
#ifndef ETCDLOCK_BASE_ERROR_H
#define ETCDLOCK_BASE_ERROR_H

#include <stdbool.h>
#include <stdint.h>

/* The codes that Lua sees as the third result, by el_code_str. */
typedef enum el_code {
  EL_OK,
  EL_TIMEOUT,         /* the lock was not free within the caller's time */
  EL_LOCKED,          /* a try found somebody else's key */
  EL_DEADLOCK,        /* this wait can never end */
  EL_NOT_HELD,        /* nothing to release, or not the holder's token */
  EL_LOST,            /* it was ours, and it is no longer */
  EL_CANCELLED,       /* the wait was given up by its caller */
  EL_CLOSED,          /* the client is closed */
  EL_UNAVAILABLE,     /* etcd can't be reached, or can't answer now */
  EL_UNAUTHENTICATED, /* etcd wants a user, or rejects this one */
  EL_DENIED,          /* this user may not touch this key */
  EL_NO_SPACE,        /* etcd's database is full */
  EL_INVALID,         /* etcd rejects the request as such */
  EL_CONFLICT,        /* it exists with other properties */
  EL_CONTEXT,         /* not possible in this place */
  EL_FORKED,          /* the handle belongs to the parent process */
  EL_PROTOCOL,        /* the other end doesn't speak etcd's v3 API */
  EL_NOMEM
} el_code;

typedef struct el_error {
  el_code code;
  bool definite;   /* certainly not applied; false: it may have been */
  bool retriable;  /* the same request may succeed a little later */
  bool lease_gone; /* etcd no longer knows our lease */
  bool token_bad;  /* etcd wants another token */
  bool auth_off;   /* etcd has no users: there is no token to be had */
  bool silent;     /* nobody has answered */
  bool elsewhere;  /* another member is there to be asked at once */
  bool connection; /* it broke, or never came about, for an unsaid reason */
  bool unsent;     /* it never came about: the request has not left us */
  char text[256];
} el_error;

/* How a request ended, for those who decide what follows. */
typedef struct el_outcome {
  bool done;                           /* carried out, and answered */
  bool definite, retriable, elsewhere; /* else: as in el_error */
  int64_t sent_ms;                     /* when it left us */
} el_outcome;

/* What |err|, the end of a request, means in short. @thread any */
el_outcome el_outcome_of(const el_error *err, int64_t sent_ms);

/* Was it refused, and will be again? @thread any */
bool el_outcome_is_final(const el_outcome *outcome);

/* The code as Lua programs see it: "timeout", "lost", ... Static memory.
 * @thread any */
const char *el_code_str(el_code code);

/* Fills |err| with |code| and a printf-style text, which becomes one line (escape.h):
 * definite, not retriable.
 * @thread any */
void el_error_set(el_error *err, el_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Fills |err| from the end of a gRPC call: |status| is the gRPC status number,
 * |details| the server's or the library's text (not NULL), |endpoint| who was
 * asked. The rules are one table in error.c, after etcd's rpctypes/error.go.
 * @thread any */
void el_error_from_status(el_error *err, int status, const char *details,
                          const char *endpoint);

#endif
