/* session: a lease kept alive, and what may be claimed on its strength, as
 * a pure step function (see entry.h for why).
 *
 *   NEW -want-> GRANTING -granted-> ALIVE -lease gone-> DEAD
 *                                     |
 *                                     +-close-> REVOKING -> DEAD
 *
 * The claim. A holder may say "held" until claim_until: the time at which the
 * last *proven* keepalive was sent, plus the TTL that it answered, minus a
 * margin. A keepalive's answer alone proves nothing: a stalled leader of etcd
 * before 3.4.31 and 3.5.13 goes on answering after it has been deposed and the
 * lease has ended (etcd issue 15247). It is proven by a read or a write that
 * needs the quorum, is sent after the keepalive's answer, and carries the same
 * raft term: the leader that renewed the lease was still the leader then. If
 * the terms differ, the lease is renewed anew. So each TTL/3 (sooner for a TTL
 * under 6 s, so that a claim outlives an election) costs one
 * keepalive and, while something is held, one quorum read of any held key; a
 * lock taken meanwhile is such a proof itself.
 *
 * The lock delay. A session may be for holds that nobody follows at once when they end without
 * being let go of: then its lease is asked for with so much more time than the TTL, and
 * what is beyond the TTL is never claimed. So the keys of one that crashes stay for that
 * long after the end of his claims, in everybody's way, whatever client that is.
 *
 * Once claim_until has passed with something held, that is lost for ever
 * (LAPSED), even if the lease turns out to live on. From then on the session does not
 * revoke its lease until the lock delay is over, whatever it is told: the keys of lost holds
 * hang on the lease. A session that is closed meanwhile leaves the lease to end by
 * itself (LEFT), and its entries delete their other keys.
 *
 * Audits. A key that was asked for with a lost answer may come at any time later,
 * and would keep others waiting for as long as the lease lives. From then on its
 * keys are looked through now and then (AUDIT); and when nobody needs the lease, it
 * ends.
 */
#ifndef ETCDLOCK_RULES_SESSION_H
#define ETCDLOCK_RULES_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef enum el_session_state {
  EL_SESSION_NEW,      /* no lease */
  EL_SESSION_GRANTING, /* asking for one */
  EL_SESSION_ALIVE,    /* the lease lived when we last heard */
  EL_SESSION_REVOKING, /* closing */
  EL_SESSION_DEAD      /* the lease is gone, or given up */
} el_session_state;

extern const char *const el_session_state_str[];

typedef struct el_session_event {
  enum {
    EL_SESSION_WANT,    /* somebody needs the lease */
    EL_SESSION_GRANTED, /* the answer to GRANT */
    EL_SESSION_KEPT,    /* the answer to KEEPALIVE, or its stream broke */
    EL_SESSION_PROBED,  /* the answer to PROBE; exists: the key was there */
    EL_SESSION_PROOF,   /* a quorum saw one of our keys, for another reason */
    EL_SESSION_LEASE_GONE, /* a put was told that there is no such lease */
    EL_SESSION_HOLDS,      /* |holds| keys are held or about to be */
    EL_SESSION_CLOSE,      /* revoke the lease, or leave it */
    EL_SESSION_DROP,       /* the same at once, and the answer is not awaited */
    EL_SESSION_REVOKED,    /* the answer to REVOKE */
    EL_SESSION_UNSURE,     /* a key that was asked for may still come */
    EL_SESSION_AUDITED,    /* the answer to AUDIT */
    EL_SESSION_UNUSED,     /* nobody needs the lease at the moment */
    EL_SESSION_CONFIRM,    /* somebody must know whether it lives now */
    EL_SESSION_TIMER       /* wake_at has come */
  } kind;
  el_outcome outcome; /* answers; of a proof sent_ms */
  int64_t id;         /* granted */
  int64_t ttl_ms;     /* granted, kept: the lease's; 0: it is gone */
  uint64_t term;      /* answers, proof: raft term */
  int64_t rev;        /* probed, proof: the store's revision */
  bool exists;        /* probed */
  int holds;
} el_session_event;

typedef struct el_session_action {
  enum {
    EL_SESSION_GRANT,     /* a lease with a new random id */
    EL_SESSION_KEEPALIVE, /* renew */
    EL_SESSION_RESET,     /* drop the keepalive stream: it is silent */
    EL_SESSION_PROBE,     /* read one held key through the quorum */
    EL_SESSION_AUDIT,     /* look which keys hang on the lease */
    EL_SESSION_REVOKE,    /* lease |id|; the answer is awaited if closing */
    EL_SESSION_READY,     /* the lease can be used */
    EL_SESSION_REFUSED,   /* no lease is to be had, for the last error */
    EL_SESSION_LAPSED,    /* whatever is held is lost */
    EL_SESSION_GONE       /* the session is over: |end| */
  } kind;
  int64_t id;
} el_session_action;

enum { EL_SESSION_ACTIONS_MAX = 8 };

typedef struct el_session_actions {
  int n;
  el_session_action list[EL_SESSION_ACTIONS_MAX];
} el_session_actions;

/* One answered keepalive (the grant counts as the first). */
typedef struct el_renewal {
  int64_t sent_ms;
  int64_t answered_ms;
  int64_t ttl_ms; /* without the lock delay */
  uint64_t term;
} el_renewal;

/* How a session has ended. */
typedef enum el_session_end {
  EL_SESSION_EXPIRED,   /* its lease, after its time */
  EL_SESSION_CUT_SHORT, /* its lease, before its time: whatever holds there, etcd
                           has not kept it as long as it had promised */
  EL_SESSION_CLOSED,    /* by us */
  EL_SESSION_LEFT       /* by us; its lease lives on until its time is over */
} el_session_end;

/* For so long a proof is a fresh one. */
enum { EL_SESSION_PROVEN_MS = 1000 };

typedef struct el_session {
  el_session_state state;
  el_session_end end; /* DEAD: how */
  int64_t want_ttl_ms;
  int64_t lock_delay_ms; /* how much of its lease's time nobody may claim */
  int64_t grant_at;      /* ask for no lease before */
  uint64_t salt;         /* for its retries */
  int64_t id;            /* lease id, 0 before it is granted */
  int64_t ttl_ms;        /* as granted, without the lock delay */
  int64_t claim_until;   /* el_now_ms; 0: nothing may be claimed */
  int64_t proven_ms;  /* when the latest request was sent that proved it ... */
  int64_t proven_rev; /* ... and the store's revision then */
  int64_t wake_at;    /* wants a TIMER event then; 0: none */

  el_renewal last, before; /* the two latest renewals */
  int64_t renewing_since;  /* a keepalive is out since; 0: none is */
  int silences;            /* keepalives without an answer, in a row */
  int64_t renew_at;        /* when to send the next */
  int64_t probe_at;        /* when to probe again; 0: at the next renewal */
  bool probing;            /* a probe is out */
  uint8_t probe_failures;  /* in a row */
  int holds;
  int64_t
      kept_until; /* the lease is not revoked before, for a hold that was lost */
  uint8_t failures; /* in a row */

  int64_t confirm_ms; /* a renewal must be sent after this; 0: none must */

  bool unsure;      /* a key that was asked for may still come, at any time */
  bool auditing;    /* an audit is out */
  int64_t audit_at; /* when to audit; 0: not at all, or one is out */
  int64_t audit_every;    /* how long after that again */
  uint8_t audit_failures; /* in a row */
} el_session;

/* A session that will ask for a lease of |ttl_ms| and |lock_delay_ms|, not before |grant_at|.
 * |salt| tells it from others that fail when it does (retry.h). @thread any */
void el_session_init(el_session *ses, int64_t ttl_ms, int64_t lock_delay_ms,
                     int64_t grant_at, uint64_t salt);

/* The time of the lease that it asks for. @thread any */
int64_t el_session_lease_ms(const el_session *ses);

/* Takes |event| at |now_ms| and fills |out|, in the order in which the actions
 * must be carried out. @thread any */
void el_session_step(el_session *ses, const el_session_event *event,
                     int64_t now_ms, el_session_actions *out);

/* May something be claimed at |now_ms|? @thread any */
bool el_session_can_claim(const el_session *ses, int64_t now_ms);

/* And if that has just been proven, the store's revision then, else 0: who is next may
 * ask any member that has come so far, and no quorum. @thread any */
int64_t el_session_proven_rev(const el_session *ses, int64_t now_ms);

#endif
