/* session: a lease that is kept alive, and until when holds on it are proven, as a pure step
 * function (see entry.h).
 *
 *   NEW -needed-> GRANTING -granted-> ALIVE -lease gone-> ENDED
 *                                       |
 *                                       +-close-> REVOKING -> ENDED
 *
 * Hold deadline. A holder counts as holding until |hold_deadline|: the time at which the last
 * *proven* keepalive was sent, plus the TTL that it answered, minus a margin. The answer to a
 * keepalive proves nothing alone: a paused leader of etcd before 3.4.31 and 3.5.13 still answers
 * after it was deposed and the lease has expired (etcd issue 15247). A keepalive is proven by a
 * linearizable read or a write that is sent after the keepalive's answer and is answered in the
 * same raft term: the leader that renewed the lease was still the leader then. If the terms differ,
 * the session renews the lease again. So every TTL/3 (more often for a TTL under 6 s, so that a
 * hold outlives an election) a session sends one keepalive and, while it has holds, one
 * linearizable read of one held key. Each acquisition is such a proof, too.
 *
 * Lock delay. A session with a lock delay asks for a lease of TTL plus lock delay, and its hold
 * deadline counts the TTL only. So the keys of a client that crashes block other clients for the
 * lock delay after the end of its holds.
 *
 * When |hold_deadline| has passed with holds, these are lost (REPORT_EXPIRED), even if the lease
 * turns out to be alive. From then on the session does not revoke its lease until the lock delay is
 * over, because the keys of the lost holds are attached to it. If the session is closed before
 * that, it leaves the lease to expire (END_LEFT_TO_EXPIRE), and its entries delete their other
 * keys.
 *
 * Audits. A put of unknown outcome may be applied at any later time, and its key would block other
 * clients until the lease ends. So after one the session lists the keys of its lease in growing
 * intervals (AUDIT_LEASE); when nothing needs the lease any more, it is revoked.
 */
#ifndef ETCDLOCK_PROTOCOL_SESSION_H
#define ETCDLOCK_PROTOCOL_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* el_session_state is the state of a session: see the diagram above. */
typedef enum el_session_state {
  EL_SESSION_NEW,      /* no lease */
  EL_SESSION_GRANTING, /* a grant is in flight or will be repeated */
  EL_SESSION_ALIVE,    /* the lease was alive at the last answer */
  EL_SESSION_REVOKING, /* closing: a revoke is in flight or will be repeated */
  EL_SESSION_ENDED     /* the lease is gone, or is no longer kept alive */
} el_session_state;

/* The states' names, for traces. */
extern const char *const el_session_state_str[];

/* el_session_event is one event for a session. The comment of a field names the kinds that use it.
 */
typedef struct el_session_event {
  enum {
    EL_SESSION_ON_NEEDED,           /* an entry needs the lease */
    EL_SESSION_ON_GRANT_ANSWER,     /* to SEND_GRANT */
    EL_SESSION_ON_KEEPALIVE_ANSWER, /* to SEND_KEEPALIVE, or its stream broke */
    EL_SESSION_ON_READ_ANSWER,      /* to READ_KEY; is_found: the key exists */
    EL_SESSION_ON_PROOF,            /* a quorum saw one of our keys in
                                       another request */
    EL_SESSION_ON_LEASE_GONE,       /* a put was answered that the lease does
                                       not exist */
    EL_SESSION_ON_HOLDS_CHANGED,    /* |holds| keys are held or about to be */
    EL_SESSION_ON_CLOSE,            /* revoke the lease, or leave it to
                                       expire */
    EL_SESSION_ON_ABANDON,          /* end at once, the lease counts as lost;
                                       it is revoked in the background, unless
                                       a lock delay is not over */
    EL_SESSION_ON_REVOKE_ANSWER,    /* to SEND_REVOKE */
    EL_SESSION_ON_PUT_IN_DOUBT,     /* a put of a key has an unknown outcome */
    EL_SESSION_ON_AUDIT_ANSWER,     /* to AUDIT_LEASE */
    EL_SESSION_ON_UNUSED,           /* nothing needs the lease at the moment */
    EL_SESSION_ON_CONFIRM,          /* an entry must know whether the lease
                                       is alive now */
    EL_SESSION_ON_TIMER             /* |wake_at| has come */
  } kind;
  el_outcome outcome; /* answers; of a proof only sent_ms */
  int64_t id;         /* grant, revoke answer: lease ID */
  int64_t ttl_ms;     /* grant, keepalive answer: the lease's; 0: the lease
                         is gone */
  uint64_t term;      /* answers, proof: raft term */
  int64_t rev;        /* read answer, proof: the store's revision */
  bool is_found;      /* read answer */
  int holds;          /* holds changed */
} el_session_event;

/* el_session_action is one action that a session wants carried out. */
typedef struct el_session_action {
  enum {
    EL_SESSION_SEND_GRANT,     /* a lease with a new random ID */
    EL_SESSION_SEND_KEEPALIVE, /* renew the lease */
    EL_SESSION_RESET_STREAM,   /* end the keepalive stream: it does not
                                  answer */
    EL_SESSION_READ_KEY,       /* read one held key, linearizable */
    EL_SESSION_AUDIT_LEASE,    /* list the keys of the lease */
    EL_SESSION_SEND_REVOKE,    /* of lease |id|; its answer is awaited while
                                  REVOKING */
    EL_SESSION_REPORT_READY,   /* the lease can be used */
    EL_SESSION_REPORT_REFUSED, /* etcd grants no lease, for the last error */
    EL_SESSION_REPORT_EXPIRED, /* all holds are lost: the hold deadline has
                                  passed */
    EL_SESSION_REPORT_ENDED    /* the session is over: |end| */
  } kind;
  int64_t id; /* send revoke: lease ID */
} el_session_action;

enum { EL_SESSION_ACTIONS_MAX = 8 };

/* el_session_actions is the list of the |n| actions of one step, in the order to carry them out. */
typedef struct el_session_actions {
  int n;
  el_session_action list[EL_SESSION_ACTIONS_MAX];
} el_session_actions;

/* el_renewal is one answered keepalive. The grant counts as the first. Times are el_now_ms. */
typedef struct el_renewal {
  int64_t sent_ms;
  int64_t answered_ms; /* 0: there was no such keepalive */
  int64_t ttl_ms;      /* without the lock delay */
  uint64_t term;       /* raft term of the answer */
} el_renewal;

/* el_session_end is how a session has ended. */
typedef enum el_session_end {
  EL_SESSION_END_EXPIRED,       /* the lease is gone, after its TTL */
  EL_SESSION_END_EARLY,         /* the lease is gone before its TTL: etcd has
                                   not kept its keys for as long as it had
                                   promised */
  EL_SESSION_END_CLOSED,        /* closed by the client, which revoked the
                                   lease */
  EL_SESSION_END_LEFT_TO_EXPIRE /* closed by the client; the lease lives
                                   until its TTL */
} el_session_end;

/* EL_SESSION_FRESH_PROOF_MS is how long a proof counts as fresh (el_session_proven_rev). */
enum { EL_SESSION_FRESH_PROOF_MS = 1000 };

/* el_session is the state machine of one session. Times are el_now_ms. */
typedef struct el_session {
  el_session_state state;
  el_session_end end;       /* ENDED: how */
  int64_t requested_ttl_ms; /* without the lock delay */
  int64_t lock_delay_ms;    /* how much longer the lease lives than its holds */
  int64_t grant_at;         /* send no grant before this */
  uint64_t salt;            /* of the backoff of its requests: see
                               el_retry_at */
  int64_t id;               /* lease ID; 0 before it is granted */
  int64_t ttl_ms;           /* as granted, without the lock delay */
  int64_t hold_deadline;    /* until when holds are proven; 0: no hold is */
  int64_t proven_ms;        /* when the latest request that is a proof was
                               sent ... */
  int64_t proven_rev;       /* ... and the store's revision in its answer */
  int64_t wake_at;          /* when to give ON_TIMER; 0: never */

  el_renewal latest, previous; /* the two latest answered keepalives */
  int64_t renewing_since;      /* when the keepalive in flight was sent; 0:
                                  none is in flight */
  int unanswered;              /* keepalives without an answer, in a row */
  int64_t renew_at;            /* when to send the next keepalive, grant or
                                  revoke */
  int64_t read_at;             /* when to read a key again; 0: after the next
                                  renewal */
  bool is_reading;             /* a read of a key is in flight */
  uint8_t read_failures;       /* in a row */
  int holds;                   /* keys that are held or about to be */
  int64_t keep_lease_until;    /* revoke the lease only after this: a hold
                                  was lost */
  uint8_t failures;            /* of grants, keepalives and revokes, in a row */

  int64_t confirm_ms; /* a keepalive must be sent after this; 0: none must */

  bool has_put_in_doubt;     /* a put of a key may be applied later */
  bool is_auditing;          /* an audit is in flight */
  int64_t audit_at;          /* when to audit; 0: never, or an audit is in
                                flight */
  int64_t audit_interval_ms; /* from this audit to the next one */
  uint8_t audit_failures;    /* in a row */
} el_session;

/* el_session_init sets |session| to a NEW session that asks for a lease of |ttl_ms| plus
 * |lock_delay_ms|, not before |grant_at|. |salt| is that of el_retry_at. @thread any */
void el_session_init(el_session *session, int64_t ttl_ms, int64_t lock_delay_ms,
                     int64_t grant_at, uint64_t salt);

/* el_session_lease_ms returns the TTL that |session| asks for, with the lock delay. @thread any */
int64_t el_session_lease_ms(const el_session *session);

/* el_session_step applies |event| at |now_ms| and fills |out| with the actions to carry out, in
 * this order. @thread any */
void el_session_step(el_session *session, const el_session_event *event,
                     int64_t now_ms, el_session_actions *out);

/* el_session_is_proven tells whether holds on the lease are proven at |now_ms|. @thread any */
bool el_session_is_proven(const el_session *session, int64_t now_ms);

/* el_session_proven_rev returns the store's revision of the latest proof if that is fresh at
 * |now_ms|, else 0. A waiter may be granted by a serializable read at this revision or later
 * instead of a linearizable one. @thread any */
int64_t el_session_proven_rev(const el_session *session, int64_t now_ms);

#endif
