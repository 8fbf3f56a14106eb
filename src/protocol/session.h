/* session: a lease with its keepalive, and the time until which holds on the lease are proven, as a
 * pure step function (see entry.h).
 *
 *   NEW -needed-> GRANTING -granted-> ALIVE -lease gone-> ENDED
 *                                       |
 *                                       +-close-> REVOKING -> ENDED
 *
 * Hold deadline. The holds of a session are valid until |hold_deadline|: the end of the last
 * renewal of the lease that is proven (lease_proof.h). If the answers to a keepalive and to the
 * read that was sent with it do not prove it, for example because their raft terms differ, the
 * session renews the lease again.
 *
 * So every TTL/3 a session sends one keepalive and, while keys are held or may become so, one
 * linearizable read of one of them, both at once. If the TTL is under 6 s, it sends them more
 * often, so that a hold outlives an election. If an answer takes TTL/10 or longer, it sends them
 * every TTL/10, so that a hold outlives lost packets and a slow disk. They are sent on time
 * although earlier ones are unanswered. The requests of each acquisition are such proofs, too.
 *
 * Lock delay. A session with a lock delay asks for a lease of TTL plus lock delay, and its hold
 * deadline counts the TTL only. So the keys of a client that crashes block other clients for the
 * lock delay after the end of its holds.
 *
 * If |hold_deadline| passes while the session has holds, these are lost (REPORT_EXPIRED), even if
 * the lease turns out to be alive. From then on the session does not revoke its lease until the
 * lock delay is over, because the keys of the lost holds are attached to the lease. If the session
 * is closed before that, it leaves the lease to expire (END_LEFT_TO_EXPIRE), and its entries delete
 * all keys but those of the lost holds.
 *
 * Audits. A put of unknown outcome may be applied at any later time, and its key would block other
 * clients until the lease ends. So after such a put the session lists the keys of its lease again
 * and again, in growing intervals (AUDIT_LEASE). When nothing needs the lease any more, the session
 * revokes it.
 */
#ifndef ETCDLOCK_PROTOCOL_SESSION_H
#define ETCDLOCK_PROTOCOL_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "protocol/lease_proof.h"

/* el_session_state is the state of a session: see the diagram above. */
typedef enum el_session_state {
  EL_SESSION_NEW,      /* no lease */
  EL_SESSION_GRANTING, /* a grant is in flight or will be repeated */
  EL_SESSION_ALIVE,    /* the lease was alive at the last answer */
  EL_SESSION_REVOKING, /* closing: a revoke is in flight or will be repeated */
  EL_SESSION_ENDED     /* the lease is gone, or is no longer kept alive */
} el_session_state;

/* el_session_event is one event for a session. The comment of a field names the kinds that use it.
 */
typedef struct el_session_event {
  enum {
    EL_SESSION_ON_NEEDED,       /* an entry needs the lease */
    EL_SESSION_ON_GRANT_ANSWER, /* SEND_GRANT was answered, or has failed */
    /* SEND_KEEPALIVE was answered, or all keepalives have failed */
    EL_SESSION_ON_KEEPALIVE_ANSWER,
    EL_SESSION_ON_READ_ANSWER, /* READ_KEY was answered, or has failed */
    /* a quorum saw one of our keys in another request */
    EL_SESSION_ON_SIGHT,
    /* etcd rejected a put, because the lease does not exist */
    EL_SESSION_ON_LEASE_GONE,
    /* |listed| keys are held or may become so, and |held| are held */
    EL_SESSION_ON_HOLDS_CHANGED,
    /* revoke the lease, or leave it to expire */
    EL_SESSION_ON_CLOSE,
    /* end at once, and count the lease as lost; it is revoked in the background, unless the lock
     * delay of a lost hold is not over */
    EL_SESSION_ON_ABANDON,
    /* SEND_REVOKE was answered, or has failed */
    EL_SESSION_ON_REVOKE_ANSWER,
    EL_SESSION_ON_PUT_IN_DOUBT, /* a put of a key has an unknown outcome */
    /* AUDIT_LEASE was answered, or has failed */
    EL_SESSION_ON_AUDIT_ANSWER,
    EL_SESSION_ON_UNUSED, /* nothing needs the lease at the moment */
    /* an entry must know whether the lease is alive now */
    EL_SESSION_ON_CONFIRM,
    /* the client has another connection, or etcd another leader */
    EL_SESSION_ON_MOVED,
    EL_SESSION_ON_TIMER /* |wake_at| has come */
  } kind;
  /* answers: how the request ended */
  el_outcome outcome;
  int64_t id; /* grant, revoke answer: lease ID */
  /* grant, keepalive answer: TTL of the lease, with the lock delay; 0: the lease is gone */
  int64_t ttl_ms;
  uint64_t member; /* answers: ID of the member that has answered */
  uint64_t term;   /* answers: raft term */
  int64_t rev;     /* answers: the store's revision */
  el_sight sight;  /* proof */
  /* read answer: the key exists and is attached to our lease */
  bool is_found;
  /* read answer: the key does not exist any more, or is not attached to our lease */
  bool is_gone;
  /* holds changed: number of keys that are held or may become so */
  int listed;
  int held; /* holds changed: number of keys that are held */
} el_session_event;

/* el_session_action is one action that a session wants carried out. */
typedef struct el_session_action {
  enum {
    EL_SESSION_SEND_GRANT,     /* request a lease with a new random ID */
    EL_SESSION_SEND_KEEPALIVE, /* renew the lease; the answer has |sent_ms| */
    EL_SESSION_READ_KEY, /* read a key that is held or may become so, linearizable */
    EL_SESSION_AUDIT_LEASE, /* list the keys of the lease */
    /* revoke the lease |id|; in the state REVOKING, ON_REVOKE_ANSWER follows; in other states the
     * revoke happens in the background */
    EL_SESSION_SEND_REVOKE,
    EL_SESSION_REPORT_READY, /* the lease can be used */
    /* etcd grants no lease; the last error tells why */
    EL_SESSION_REPORT_REFUSED,
    /* all holds are lost: the hold deadline has passed */
    EL_SESSION_REPORT_EXPIRED,
    EL_SESSION_REPORT_ENDED /* the session is over: |end| */
  } kind;
  int64_t id;      /* send revoke: lease ID */
  int64_t sent_ms; /* send keepalive: when (el_now_ms) */
} el_session_action;

enum { EL_SESSION_ACTIONS_MAX = 8 };

/* el_session_actions is the list of the |n| actions of one step, in the order to carry them out. */
typedef struct el_session_actions {
  int n;
  el_session_action list[EL_SESSION_ACTIONS_MAX];
} el_session_actions;

/* el_session_end is how a session has ended. */
typedef enum el_session_end {
  EL_SESSION_END_EXPIRED, /* the lease is gone, after its TTL */
  /* the lease was gone before its TTL was over: etcd did not keep the keys for as long as it had
   * promised */
  EL_SESSION_END_EARLY,
  /* closed by the client, which revoked the lease */
  EL_SESSION_END_CLOSED,
  /* closed by the client; the lease lives until its TTL is over */
  EL_SESSION_END_LEFT_TO_EXPIRE
} el_session_end;

enum {
  /* the largest number of keepalives in flight, and of reads */
  EL_SESSION_IN_FLIGHT_MAX = EL_RENEWALS_MAX
};

/* el_session is the state machine of one session. Times are el_now_ms. */
typedef struct el_session {
  el_session_state state;
  el_session_end end;       /* ENDED: how */
  int64_t requested_ttl_ms; /* TTL to ask for, without the lock delay */
  /* milliseconds for which the lease lives longer than its holds */
  int64_t lock_delay_ms;
  int64_t grant_at; /* send no grant before this */
  /* spreads the retries of the session's requests: see el_retry_at */
  uint64_t salt;
  int64_t id;         /* lease ID; 0 before it is granted */
  int64_t granted_ms; /* when the lease was granted */
  int64_t ttl_ms;     /* TTL as granted, without the lock delay */
  /* the time until which holds are proven; 0: no hold is proven */
  int64_t hold_deadline;
  el_lease_proof proof;
  int64_t wake_at; /* when to give ON_TIMER; 0: never */

  int64_t answer_ms; /* how long an answer takes now; set by the caller */
  /* when the keepalives in flight were sent, the oldest first */
  int64_t keepalives_ms[EL_SESSION_IN_FLIGHT_MAX];
  int keepalives; /* in flight */
  /* when to send the next keepalive, grant or revoke */
  int64_t renew_at;
  /* when to read a key again; 0: with the next keepalive */
  int64_t read_at;
  int64_t read_ms;       /* when the last read of a key was sent */
  uint8_t reads;         /* reads of a key in flight */
  uint8_t read_failures; /* failed reads in a row */
  int listed;            /* keys that are held or may become so */
  int held;              /* keys that are held */
  /* do not revoke the lease before this, because a hold was lost; 0: no hold was lost */
  int64_t keep_lease_until;
  /* failed grants, keepalives and revokes in a row */
  uint8_t failures;

  /* an entry needs the answer to a keepalive that is sent at this time or later; 0: no entry has
   * needed it */
  int64_t confirm_ms;

  bool has_put_in_doubt; /* a put of a key may be applied later */
  bool is_auditing;      /* an audit is in flight */
  /* when to audit; 0: never, or an audit is in flight */
  int64_t audit_at;
  /* milliseconds from the answer to the next audit until the audit after it */
  int64_t audit_interval_ms;
  uint8_t audit_failures; /* failed audits in a row */
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

/* el_session_proven_rev returns the store's revision in the answer that has shown a key of the
 * lease last; 0: that answer is not fresh at |now_ms|, or the hold deadline is near. A serializable
 * read of this revision or a later one is enough to grant a waiter; otherwise the grant takes a
 * linearizable read. @thread any */
int64_t el_session_proven_rev(const el_session *session, int64_t now_ms);

#endif
