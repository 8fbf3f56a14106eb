/* error: the error table, which translates gRPC's status and etcd's text to an el_error. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* gRPC's status numbers (doc/statuscodes.md of gRPC). Only net/ may include gRPC's headers. */
enum {
  GRPC_CANCELLED = 1,
  GRPC_UNKNOWN = 2,
  GRPC_INVALID_ARGUMENT = 3,
  GRPC_DEADLINE_EXCEEDED = 4,
  GRPC_NOT_FOUND = 5,
  GRPC_PERMISSION_DENIED = 7,
  GRPC_RESOURCE_EXHAUSTED = 8,
  GRPC_FAILED_PRECONDITION = 9,
  GRPC_OUT_OF_RANGE = 11,
  GRPC_UNIMPLEMENTED = 12,
  GRPC_INTERNAL = 13,
  GRPC_UNAVAILABLE = 14,
  GRPC_DATA_LOSS = 15,
  GRPC_UNAUTHENTICATED = 16,
  ANY_STATUS = -1
};

const char *el_code_str(el_code code) {
  static const char *const names[] = {
      [EL_OK] = "ok",
      [EL_TIMEOUT] = "timeout",
      [EL_LOCKED] = "locked",
      [EL_DEADLOCK] = "deadlock",
      [EL_NOT_HELD] = "not_held",
      [EL_LOST] = "lost",
      [EL_CANCELLED] = "cancelled",
      [EL_CLOSED] = "closed",
      [EL_UNAVAILABLE] = "unavailable",
      [EL_UNAUTHENTICATED] = "unauthenticated",
      [EL_DENIED] = "denied",
      [EL_NO_SPACE] = "no_space",
      [EL_INVALID] = "invalid",
      [EL_CONFLICT] = "conflict",
      [EL_CONTEXT] = "context",
      [EL_FORKED] = "forked",
      [EL_PROTOCOL] = "protocol",
      [EL_NOMEM] = "nomem",
  };
  return names[code];
}

el_outcome el_outcome_of(const el_error *err, int64_t sent_ms) {
  return (el_outcome){.is_done = err->code == EL_OK,
                      .is_definite = err->is_definite,
                      .is_retriable = err->is_retriable,
                      .has_other_member = err->has_other_member,
                      .sent_ms = sent_ms};
}

bool el_outcome_is_final(const el_outcome *outcome) {
  return !outcome->is_done && outcome->is_definite && !outcome->is_retriable;
}

void el_error_set(el_error *err, el_code code, const char *fmt, ...) {
  char raw[sizeof err->text];
  locale_t previous = el_c_locale_enter();
  va_list ap;
  memset(err, 0, sizeof *err);
  err->code = code;
  err->is_definite = true;
  va_start(ap, fmt);
  vsnprintf(raw, sizeof raw, fmt, ap);
  va_end(ap);
  el_c_locale_leave(previous);
  el_escape(err->text, sizeof err->text, raw);
}

/* ---- the error table ---- */

/* Flags of a rule, as in el_error. Most errors UNAVAILABLE, and all DEADLINE_EXCEEDED, are not
 * DEFINITE, because they may follow a commit. Even "database space exceeded" may:
 * quotaApplierV3.Txn applies the transaction first and returns this error afterwards. */
enum {
  DEFINITE = 1,
  RETRIABLE = 2,
  LEASE_GONE = 4,
  TOKEN_BAD = 8,
  AUTH_OFF = 16,
  UNANSWERED = 32,
  TOO_LARGE = 64,
  COMPACTED = 128,
  NEW_LEADER = 256,
  OVER_LIMIT = 512
};

/* The first rule that matches both the status and the text applies. The texts are those of etcd's
 * rpctypes/error.go, except "grpc: received message larger" (etcd's gRPC server), and four texts of
 * gRPC core: "message larger than max", "Buffers full", "status: 413" and "RST_STREAM"
 * (large_answers_spec.lua and endless_answers_spec.lua in spec/errors/, and
 * spec/cluster/http_proxy_spec.lua fail if gRPC changes them). */
static const struct {
  int status;
  const char *text; /* the details must contain it; NULL: any details */
  el_code code;
  int flags;
  const char *hint; /* the remedy or an explanation; NULL: none */
} rules[] = {
    {GRPC_NOT_FOUND, "requested lease not found", EL_LOST,
     DEFINITE | LEASE_GONE, NULL},
    {GRPC_FAILED_PRECONDITION, "lease already exists", EL_CONFLICT,
     DEFINITE | RETRIABLE, NULL},
    {GRPC_FAILED_PRECONDITION, "authentication is not enabled",
     EL_UNAUTHENTICATED, DEFINITE | AUTH_OFF, NULL},
    {GRPC_UNAVAILABLE, "learner", EL_UNAVAILABLE, DEFINITE | RETRIABLE, NULL},
    /* The same error since etcd 3.6. */
    {GRPC_FAILED_PRECONDITION, "learner", EL_UNAVAILABLE, DEFINITE | RETRIABLE,
     NULL},
    /* The member says so only if there is another leader (newLeader in etcdserver/raft.go). */
    {GRPC_UNAVAILABLE, "leader changed", EL_UNAVAILABLE, RETRIABLE | NEW_LEADER,
     NULL},
    {GRPC_INVALID_ARGUMENT, "user name is empty", EL_UNAUTHENTICATED,
     DEFINITE | TOKEN_BAD, "etcd requires a user and a password"},
    {GRPC_INVALID_ARGUMENT, "authentication failed", EL_UNAUTHENTICATED,
     DEFINITE, "the user or the password is wrong"},
    {GRPC_INVALID_ARGUMENT, "revision of auth store is old", EL_UNAUTHENTICATED,
     DEFINITE | TOKEN_BAD, NULL},
    /* The client does not check these limits itself: it does not know those of this etcd. */
    {GRPC_INVALID_ARGUMENT, "too many operations", EL_INVALID, DEFINITE,
     "etcd's default limit is 128 operations (--max-txn-ops)"},
    {GRPC_INVALID_ARGUMENT, "request is too large", EL_INVALID, DEFINITE,
     "etcd's default limit is 1.5 MiB (--max-request-bytes)"},
    {GRPC_INVALID_ARGUMENT, NULL, EL_INVALID, DEFINITE, NULL},
    {GRPC_UNAUTHENTICATED, NULL, EL_UNAUTHENTICATED, DEFINITE | TOKEN_BAD,
     NULL},
    {GRPC_PERMISSION_DENIED, NULL, EL_DENIED, DEFINITE, NULL},
    {GRPC_RESOURCE_EXHAUSTED, "database space exceeded", EL_NO_SPACE, 0,
     "compact and defragment etcd, then disarm its NOSPACE alarm"},
    {GRPC_RESOURCE_EXHAUSTED, "too many requests", EL_UNAVAILABLE,
     DEFINITE | RETRIABLE, NULL},
    /* If a request is too large, etcd rejects it before it applies it. If an answer is too large,
     * etcd has applied the request. */
    {GRPC_RESOURCE_EXHAUSTED, "grpc: received message larger", EL_INVALID,
     DEFINITE, "etcd's default limit is 1.5 MiB (--max-request-bytes)"},
    {GRPC_RESOURCE_EXHAUSTED, "message larger than max", EL_INVALID, TOO_LARGE,
     "read less at once, and keep no other data below the name of a lock"},
    /* gRPC chooses at random which call it ends. */
    {GRPC_RESOURCE_EXHAUSTED, "Buffers full", EL_UNAVAILABLE, RETRIABLE, NULL},
    {GRPC_RESOURCE_EXHAUSTED, NULL, EL_INVALID, 0, NULL},
    {GRPC_OUT_OF_RANGE, "revision has been compacted", EL_INVALID,
     DEFINITE | COMPACTED, NULL},
    {GRPC_OUT_OF_RANGE, NULL, EL_INVALID, DEFINITE, NULL},
    {GRPC_UNIMPLEMENTED, NULL, EL_PROTOCOL, DEFINITE,
     "the endpoint is not an etcd v3 client port"},
    /* A proxy may limit what a client sends in a call. A proxy that has begun to answer can only
     * end the call, and may do so for another reason, too. */
    {GRPC_UNKNOWN, "status: 413", EL_INVALID, DEFINITE | OVER_LIMIT,
     "raise the proxy's limit of a request body (nginx: client_max_body_size)"},
    {GRPC_INTERNAL, "RST_STREAM", EL_UNAVAILABLE, RETRIABLE | OVER_LIMIT, NULL},
    {GRPC_DATA_LOSS, "corrupt cluster", EL_UNAVAILABLE, DEFINITE,
     "etcd refuses all writes until its CORRUPT alarm is disarmed"},
    {GRPC_DEADLINE_EXCEEDED, NULL, EL_UNAVAILABLE, RETRIABLE | UNANSWERED,
     NULL},
    {ANY_STATUS, NULL, EL_UNAVAILABLE, RETRIABLE, NULL},
};

/* ---- the message ---- */

/* Plain messages for the texts of gRPC core and of the libraries that it uses, which gRPC does not
 * promise. Only the message depends on this table. The first row whose |part| occurs in the details
 * applies, unless the status is DEADLINE_EXCEEDED. */
static const struct {
  const char *part;
  const char *message; /* NULL: the details are plain enough */
  /* the part of the details after their last colon follows the message */
  bool is_end_appended;
} plain[] = {
    {"etcdserver:", NULL, false},
    {"resol", "the host name cannot be resolved", false},
    {"tcp handshaker shutdown", "no connection in time", false},
    {"Handshake timed out", "no connection in time", false},
    {"before receiving SETTINGS frame",
     "the server accepts connections, but has not answered in time", false},
    {"keepalive watchdog timeout", "the connection is dead", false},
    {"GOAWAY", "the server has closed the connection", false},
    {"Endpoint read failed", "the server has closed the connection", false},
    {"Socket closed", "the server has closed the connection", false},
    {"RST_STREAM", "the server has ended the call", false},
    {"Transport closed", "the server has closed the connection", false},
    {"Received message larger than max", "the answer is too large", false},
    {"Buffers full", "unfinished answers take more than 128 MiB", false},
    {"header with status",
     "a proxy or web server has answered in place of etcd, HTTP status", true},
    {"Too many open files",
     "this process cannot open a socket (ulimit -n, RLIMIT_NOFILE)", false},
    {"Cannot allocate memory",
     "this process has no memory left for a connection (ulimit -v, RLIMIT_AS, "
     "memory.max of the control group)",
     false},
    {"recvmsg", "the connection broke", true},
    {"sendmsg", "the connection broke", true},
};

/* Returns whether the |len| bytes at |text| are only context (a status, an address, or the step
 * that failed), and not the cause. */
static bool is_context(const char *text, size_t len) {
  static const char *const starts[] = {
      "ipv4:", "ipv6:", "unix:", "Failed to connect to remote host"};
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
    if (strncmp(text, starts[i], strlen(starts[i])) == 0) return true;
  }
  return strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == len;
}

/* Returns the cause at the end of |details|. Example: "failed to connect to all addresses; last
 * error: UNKNOWN: ipv4:...: Failed to connect to remote host: Connection refused" gives "Connection
 * refused". */
static const char *skip_context(const char *details) {
  const char *last = strstr(details, "last error: ");
  const char *text = last != NULL ? last + strlen("last error: ") : details;
  const char *end;
  while ((end = strstr(text, ": ")) != NULL &&
         is_context(text, (size_t)(end - text))) {
    text = end + strlen(": ");
  }
  return text;
}

/* Writes the cause of an error with |status| and |details| to |to|, which has |size| bytes. */
static void write_cause(char *to, size_t size, int status,
                        const char *details) {
  const char *last = strrchr(details, ':');
  if (status == GRPC_DEADLINE_EXCEEDED) {
    snprintf(to, size, "no answer in time");
    return;
  }
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
    if (strstr(details, plain[i].part) == NULL) continue;
    if (plain[i].message == NULL) break;
    if (plain[i].is_end_appended && last != NULL) {
      snprintf(to, size, "%s: %s", plain[i].message,
               last + 1 + strspn(last + 1, " "));
    } else {
      snprintf(to, size, "%s", plain[i].message);
    }
    return;
  }
  snprintf(to, size, "%s",
           *details ? skip_context(details) : "no reason given");
}

void el_error_from_status(el_error *err, int status, const char *details,
                          const char *endpoint) {
  char cause[sizeof err->text];
  size_t i = 0;
  /* The last rule matches any error. */
  while (rules[i].status != ANY_STATUS &&
         (rules[i].status != status ||
          (rules[i].text != NULL && strstr(details, rules[i].text) == NULL))) {
    i++;
  }
  write_cause(cause, sizeof cause, status, details);
  el_error_set(err, rules[i].code, "etcd %s: %s%s%s", endpoint, cause,
               rules[i].hint ? "; " : "", rules[i].hint ? rules[i].hint : "");
  err->is_retriable = rules[i].flags & RETRIABLE;
  /* If gRPC changes this text, the request counts as one that may have been sent. */
  err->is_unsent =
      status == GRPC_UNAVAILABLE &&
      strstr(details, "failed to connect to all addresses") != NULL;
  err->is_definite = rules[i].flags & DEFINITE;
  err->is_lease_gone = rules[i].flags & LEASE_GONE;
  err->is_token_bad = rules[i].flags & TOKEN_BAD;
  err->is_auth_off = rules[i].flags & AUTH_OFF;
  err->is_unanswered = rules[i].flags & UNANSWERED;
  err->is_too_large = rules[i].flags & TOO_LARGE;
  err->is_compacted = rules[i].flags & COMPACTED;
  err->has_new_leader = rules[i].flags & NEW_LEADER;
  err->is_over_limit = rules[i].flags & OVER_LIMIT;
  err->is_from_etcd = strstr(details, "etcdserver:") != NULL;
  /* gRPC reports UNKNOWN for an endpoint that it cannot use. */
  err->is_unexplained =
      (status == GRPC_UNAVAILABLE || status == GRPC_UNKNOWN) &&
      !err->is_from_etcd;
}
