/* lease_model: random schedules of an etcd cluster against the rule in protocol/lease_proof.h.
 *
 * The program checks one promise: while now < alive_until, the lease exists in the state that a
 * quorum has committed. The cluster does what etcd's sources allow, or worse: a deposed leader
 * renews leases in its memory, a member that has applied a snapshot keeps its old raft term, a
 * lease may end at the first millisecond at which its leader may end it.
 *
 *   build/model/rule FROM COUNT [NAME=VALUE...]   run COUNT schedules, with the seeds from FROM on
 *   build/model/rule SEED [NAME=VALUE...]         tell the story of one schedule
 *
 * `make model` builds it, and build/model/mutantN with each known mutant of the rule. |options|
 * lists the names, |words| the words for values. Time is in ms. One seed is one schedule. */
#include "protocol/lease_proof.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MEMBERS_MAX = 5,
  ENTRIES_MAX = 512,
  REQUESTS_MAX = 320,
  EVENTS_MAX = 2048,
  FAULTS_MAX = 24,
  NOBODY = -1,
  MEMBER_ID_BASE = 100, /* the ID of member 0 in answers */
  RENEW_ACTIVE_MS = 300 /* see versions */
};

/* ---- options ---- */

/* What a leader does with a keepalive while its raft loop hangs. VULNERABLE: it renews the lease in
 * its memory. FIXED (etcd 3.4.31, 3.5.13): it does so for RENEW_ACTIVE_MS after its last tick;
 * later it first checks that it still leads. MIXED: each member is one of these, by seed. */
typedef enum { FIXED, VULNERABLE, MIXED } versions;
/* What a new leader adds to the TTL: nothing, or an election timeout. */
typedef enum { BY_SEED = -1, EXACT = 0, AS_ETCD = 1 } promotion;

/* Each is an int, so that one table can parse them all. For some, -1, or the word seed, lets the
 * schedule's seed choose the value. */
static struct {
  /* the cluster, and its faults (1: they may happen) */
  int versions;  /* fixed, vulnerable or mixed */
  int snapshots; /* 0 or none; 1 or missing: for members that miss |catchup| entries; 2 or restarts:
                    also from a leader that has restarted, and so keeps fewer entries */
  int catchup;   /* entries that a leader keeps for slow members */
  int bump;      /* percent of entries that raise the revision, or -1 */
  int promote;   /* exact, etcd or seed */
  int hang;      /* raft loops hang on their disk */
  int pause;     /* processes stop as a whole */
  int cut;       /* links between members fail */
  int transfer;  /* leadership is handed to another member */
  int restart;   /* members crash and come back */
  int stale_revokes; /* a deposed leader's revoke is forwarded to the next leader (etcd #15247) */
  int stale_reads; /* a deposed leader may confirm a read (etcd #20418) */
  int torn; /* an answer may fall between etcd's setAppliedIndex and setTerm */
  int slow_renew; /* a leader may pause between "has it expired?" and the renewal */
  int members; /* 3 or 5; 0: by seed */
  /* the client */
  int writes; /* percent of sights that are writes, or -1 */
  int clocks; /* 1: its clock is up to 1 % off; 0: exact, or -1 */
  /* changes of the client's rule: what else a sight must satisfy */
  int max_term; /* 1: it has the largest term of all answers so far */
  int grow; /* 1: later the same member shows a later revision in the same term */
  /* the output */
  int all;   /* 1: count broken schedules; 2: name each; 0: stop at the first */
  int stats; /* 1: print how often the schedules did what */
} options = {.versions = MIXED,
             .snapshots = 0,
             .catchup = 5000,
             .bump = -1,
             .promote = BY_SEED,
             .hang = 1,
             .pause = 1,
             .cut = 1,
             .transfer = 1,
             .restart = 1,
             .writes = -1,
             .clocks = -1};

static const struct {
  const char *name;
  int *value;
} option_names[] = {{"versions", &options.versions},
                    {"snapshots", &options.snapshots},
                    {"catchup", &options.catchup},
                    {"bump", &options.bump},
                    {"promote", &options.promote},
                    {"hang", &options.hang},
                    {"pause", &options.pause},
                    {"cut", &options.cut},
                    {"transfer", &options.transfer},
                    {"restart", &options.restart},
                    {"stale_revokes", &options.stale_revokes},
                    {"stale_reads", &options.stale_reads},
                    {"torn", &options.torn},
                    {"slow_renew", &options.slow_renew},
                    {"writes", &options.writes},
                    {"clocks", &options.clocks},
                    {"members", &options.members},
                    {"max_term", &options.max_term},
                    {"grow", &options.grow},
                    {"all", &options.all},
                    {"stats", &options.stats}};

/* Words that may stand for a value. */
static const struct {
  const char *word;
  int value;
} words[] = {{"fixed", FIXED},  {"vulnerable", VULNERABLE},
             {"mixed", MIXED},  {"exact", EXACT},
             {"etcd", AS_ETCD}, {"none", 0},
             {"missing", 1},    {"restarts", 2},
             {"seed", -1}};

/* ---- the world ---- */

typedef enum { EMPTY, NORMAL, GRANT, REVOKE } entry_kind;

typedef struct {
  entry_kind kind;
  uint64_t term;
  int64_t
      position; /* raft's index: one entry of the model stands for many of raft */
  int64_t rev;
} entry;

typedef struct {
  bool is_vulnerable;
  bool is_down;
  bool is_primary; /* its lessor renews and expires leases */
  int64_t hung_until, paused_until;
  int64_t last_tick;  /* of its raft loop, while that hangs */
  uint64_t raft_term; /* the highest that it has voted in or heard of */
  int lead;           /* the leader it knows, or NOBODY */
  uint64_t lead_term; /* that leader's term */
  int64_t
      lose_at; /* when it gives up its leader, if it hears nothing until then */
  int log;     /* how many committed entries are in its log */
  int known;   /* how many of them it knows to be committed */
  int applied; /* how many it has applied */
  int store; /* how many are in its store: more than |applied| after a restart */
  int snap_to; /* the snapshot that it has received and not applied; 0: none */
  int snap_after;     /* how many entries it applies before that snapshot */
  uint64_t term;      /* raft_term in its answers */
  int64_t base;       /* its log begins after this position */
  int64_t expires;    /* when its lessor lets the lease expire */
  bool is_expiry_set; /* an event will look at |expires| */
  bool is_applying;   /* an event will apply the next entry */
} member;

typedef enum { KEEPALIVE, READ, WRITE, GRANTING } request_kind;

typedef enum {
  ARRIVE,  /* reaches the member */
  ROUTE,   /* keepalive: renew here or at the leader? */
  ENSURE,  /* keepalive: the member had to ask a quorum whether it leads */
  RENEW,   /* keepalive: renew in the member's own lessor */
  HTTP,    /* keepalive: reaches the leader that the member knows */
  REFRESH, /* keepalive: second half of a slow renewal */
  BACK,    /* keepalive: the leader's answer reaches the member */
  CONFIRM, /* sight: a quorum confirms or commits */
  WAIT,    /* sight: until the member has applied what was confirmed */
  FILL,    /* sight: the member fills the header */
  ANSWER,  /* reaches the client */
  DONE
} request_state;

typedef struct {
  request_kind kind;
  request_state state;
  int member, target;
  int64_t sent_ms; /* by the client's clock */
  int64_t give_up;
  int index; /* how many entries must be applied */
  uint64_t term;
  int64_t rev;
} request;

typedef enum {
  DO_SYNC,
  DO_APPLY,
  DO_EMPTY,
  DO_WRITE,
  DO_FAULT,
  DO_DOUBLE_FAULT,
  DO_CRASH,
  DO_UNHANG,
  DO_UNPAUSE,
  DO_HEAL,
  DO_UP,
  DO_ELECT,
  DO_STEP_DOWN,
  DO_EXPIRE,
  DO_PROPOSE,
  DO_REVOKE,
  DO_FORWARDED_REVOKE,
  DO_KEEPALIVE,
  DO_SIGHT,
  DO_REQUEST,
  DO_CUT_CLIENT
} event_kind;

typedef struct {
  uint64_t key; /* time, then a random order */
  int64_t stamp;
  int kind, who;
} event;

typedef struct {
  int64_t elections, snapshots, deposed_renewals, renewals, revokes, proofs;
  int64_t revived, restarts, early_promotions, doomed_renewals;
} counts;

typedef struct {
  uint64_t random;
  int64_t now, end;
  bool is_verbose;

  /* this schedule's character */
  int n, majority;
  int64_t election_ms, ttl_ms, late_ms, pace_ms;
  int tail_percent, bump_percent, write_percent, loss_percent, burst_percent;
  int fault_kinds[FAULTS_MAX],
      n_fault_kinds; /* which faults it has; the more often here, the likelier */
  int favourite;     /* a member with more faults than others, or NOBODY */
  int expiry_fault_percent; /* how often a leader has a fault when the lease expires */
  int slow_member;          /* it applies entries slowly, or NOBODY */
  bool is_slow_elected; /* leaderships are handed to that member */
  bool is_promote_exact, is_commit_instant;

  event events[EVENTS_MAX];
  int n_events;

  member members[MEMBERS_MAX];
  bool link[MEMBERS_MAX][MEMBERS_MAX];
  entry log[ENTRIES_MAX];
  int n_log;
  int grant_at, revoke_at; /* their entries, or INT_MAX */
  uint64_t term;
  int leader; /* of |term|, or NOBODY */
  int64_t elected_ms;
  int64_t lost_since; /* since when no quorum hears the leader; -1: one does */
  bool is_led;        /* the leader has committed an entry of its term */
  bool is_revoking,
      is_revoke_replicated; /* a revoke is in the leader's log, not committed */
  uint64_t revoke_term;
  bool is_carried; /* the new leader has that revoke in its log */

  request requests[REQUESTS_MAX];
  int n_requests;
  int waiting[REQUESTS_MAX];
  int n_waiting;

  /* the client */
  el_lease_proof proof;
  int64_t clock_base, clock_rate;
  bool is_clock_wrong, is_cut_off, is_answer_lost_after_cut, is_granted,
      is_seen;
  int reach; /* bit mask of members */
  int at[2]; /* which member gets keepalives, and sights */
  int style, switch_percent, keepalive_ms, sight_ms, cut_percent;
  uint64_t max_term;
  el_sight last[MEMBERS_MAX]; /* with |grow|: each member's last sight */
  int64_t last_answered_ms[MEMBERS_MAX];

  bool is_broken;
  char verdict[200];
  counts counts;
} world;

static world w;
static counts total;

__attribute__((format(printf, 1, 2))) static void tell(const char *format,
                                                       ...) {
  va_list list;
  if (!w.is_verbose) return;
  printf("%6" PRId64 " ms: ", w.now);
  va_start(list, format);
  vprintf(format, list);
  va_end(list);
  putchar('\n');
}

/* ---- chance ---- */

static uint64_t next_random(void) {
  uint64_t z = (w.random += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Returns a number from |least| to |most|. */
static int64_t between(int64_t least, int64_t most) {
  if (most <= least) return least;
  return least +
         (int64_t)((next_random() >> 16) % (uint64_t)(most - least + 1));
}

static bool chance(int percent) { return between(0, 99) < percent; }

/* Returns how long a message takes: mostly at most the schedule's pace, sometimes very long. */
static int64_t delay(void) {
  if (chance(w.tail_percent))
    return between(0, chance(50) ? 300 : w.ttl_ms * 3 / 2);
  return between(0, w.pace_ms);
}

/* ---- events ---- */

static void post_stamped(event_kind kind, int who, int64_t at, int64_t stamp) {
  uint64_t key;
  int i;
  if (at < w.now) at = w.now;
  if (w.n_events == EVENTS_MAX) return;
  key = ((uint64_t)at << 20) | (next_random() >> 44);
  for (i = w.n_events++; i > 0 && w.events[(i - 1) / 2].key > key;
       i = (i - 1) / 2) {
    w.events[i] = w.events[(i - 1) / 2];
  }
  w.events[i] =
      (event){.key = key, .stamp = stamp, .kind = (int)kind, .who = who};
}

static void post(event_kind kind, int who, int64_t at) {
  post_stamped(kind, who, at, 0);
}

static event take(void) {
  event first = w.events[0], last = w.events[--w.n_events];
  int i = 0;
  for (;;) {
    int child = 2 * i + 1;
    if (child >= w.n_events) break;
    if (child + 1 < w.n_events && w.events[child + 1].key < w.events[child].key)
      child++;
    if (last.key <= w.events[child].key) break;
    w.events[i] = w.events[child];
    i = child;
  }
  w.events[i] = last;
  return first;
}

/* ---- members ---- */

static bool is_hung(int m) { return w.now < w.members[m].hung_until; }

static bool is_paused(int m) { return w.now < w.members[m].paused_until; }

/* Whether the member's process runs, so that its lessor and its HTTP server do. */
static bool is_running(int m) { return !w.members[m].is_down && !is_paused(m); }

/* Whether the member's raft loop runs. */
static bool is_able(int m) { return is_running(m) && !is_hung(m); }

static int count_able_linked(int m) {
  int n = 0;
  for (int i = 0; i < w.n; i++)
    n += i == m || (is_able(i) && w.link[m][i]);
  return n;
}

/* Whether the member leads, and a quorum can follow it now. */
static bool is_leading(int m) {
  return m != NOBODY && w.leader == m && is_able(m) &&
         count_able_linked(m) >= w.majority;
}

/* Whether the member believes that it leads, in a term that has ended. */
static bool is_deposed(int m) {
  return w.members[m].lead == m &&
         (w.leader != m || w.members[m].lead_term != w.term);
}

static int64_t position_of(int n) { return n > 0 ? w.log[n - 1].position : 0; }

static int64_t rev_of(int n) { return n > 0 ? w.log[n - 1].rev : 1; }

/* Whether the lease exists in the member's store. */
static bool has_lease(const member *it) {
  return w.grant_at < it->store && w.revoke_at >= it->store;
}

static bool is_lease_gone(void) { return w.revoke_at < w.n_log; }

static void demote(int m) { w.members[m].is_primary = false; }

static void set_lead(int m, int lead, uint64_t term) {
  member *it = &w.members[m];
  if (it->lead == lead && (lead == NOBODY || it->lead_term == term)) return;
  if (it->lead == m) tell("member %d learns that it leads no more", m);
  it->lead = lead;
  it->lead_term = term;
  if (lead != m) demote(m);
}

static void apply_soon(int m, int64_t in_ms) {
  member *it = &w.members[m];
  if (it->is_applying) return;
  it->is_applying = true;
  post(DO_APPLY, m, w.now + in_ms);
}

/* A member may be slow to apply for seconds, as during a defragmentation. */
static int64_t apply_delay(int m) {
  if (m == w.slow_member && chance(30)) return between(0, w.ttl_ms);
  return chance(90) ? between(0, w.pace_ms / 2) : delay();
}

/* ---- the promise ---- */

static int64_t client_now(void) {
  return w.clock_base + w.now * w.clock_rate / 10000;
}

static int64_t margin(void) {
  int64_t it = w.ttl_ms / 10;
  return it < 200 ? 200 : it > 4000 ? 4000 : it;
}

/* Until when the lease must exist: without errors of clocks even within the margin. */
static int64_t promised_until(void) {
  if (w.proof.alive_until == 0) return 0;
  return w.proof.alive_until + (w.is_clock_wrong ? 0 : margin() - 1);
}

static void check_promise(void) {
  if (w.is_broken || !is_lease_gone() || client_now() >= promised_until())
    return;
  w.is_broken = true;
  snprintf(w.verdict, sizeof w.verdict,
           "at %" PRId64 " ms the lease is gone, %s %" PRId64
           " ms too early (TTL %" PRId64
           ", %d members, election timeout %" PRId64 ")",
           w.now,
           w.is_clock_wrong ? "alive_until is" : "alive_until + margin is",
           promised_until() - client_now(), w.ttl_ms, w.n, w.election_ms);
  tell("PROMISE BROKEN: %s", w.verdict);
}

/* ---- the log ---- */

static void commit(entry_kind kind, uint64_t term) {
  static const char *const names[] = {"an empty entry", "a write", "the grant",
                                      "the revoke"};
  int leader = w.leader, with_it = 1, left = w.n - 1;
  int64_t weight = 1, bump;
  entry *it;
  if (w.n_log == ENTRIES_MAX) return;
  if (kind == NORMAL)
    weight = chance(w.burst_percent) ? between(2000, 12000) : between(1, 100);
  bump = kind == EMPTY ? 0 : kind == NORMAL ? weight * w.bump_percent / 100 : 1;
  it = &w.log[w.n_log];
  *it = (entry){kind, term, position_of(w.n_log) + weight,
                rev_of(w.n_log) + bump};
  if (kind == GRANT) w.grant_at = w.n_log;
  if (kind == REVOKE && is_lease_gone()) return;
  if (kind == REVOKE) w.revoke_at = w.n_log;
  w.n_log++;
  tell("leader %d commits %s (term %" PRIu64 ", index %d, raft index %" PRId64
       ")",
       leader, names[kind], term, w.n_log, it->position);
  w.members[leader].log = w.members[leader].known = w.n_log;
  apply_soon(leader, apply_delay(leader));
  for (int i = 0; i < w.n; i++) {
    if (i == leader) continue;
    left--;
    if (!is_able(i) || !w.link[leader][i]) continue;
    /* A member that misses earlier entries cannot take this one alone. */
    if (w.members[i].log == w.n_log - 1 &&
        (chance(70) || with_it + left < w.majority)) {
      w.members[i].log = w.n_log;
      with_it++;
    }
    if (chance(70)) post(DO_SYNC, i, w.now + delay());
  }
  /* A quorum has the entry: members that are behind first get what they miss. */
  for (int i = 0; i < w.n && with_it < w.majority; i++) {
    if (i == leader || !is_able(i) || !w.link[leader][i] ||
        w.members[i].log == w.n_log)
      continue;
    w.members[i].log = w.n_log;
    with_it++;
  }
  if (kind == REVOKE) {
    w.counts.revokes++;
    check_promise();
  }
}

/* ---- leases ---- */

static void watch_expiry(int m) {
  member *it = &w.members[m];
  if (it->is_expiry_set || !it->is_primary) return;
  it->is_expiry_set = true;
  post(DO_EXPIRE, m, it->expires + (w.late_ms > 0 ? between(0, w.late_ms) : 0));
}

static void refresh(int m, int64_t from) {
  w.members[m].expires = from + w.ttl_ms;
  watch_expiry(m);
}

/* As etcd does when a leader applies an empty entry, be it of its own term or an older one. */
static void promote(int m) {
  member *it = &w.members[m];
  int64_t before = it->is_primary ? it->expires : 0;
  if (w.log[it->applied - 1].term != it->lead_term) w.counts.early_promotions++;
  it->is_primary = true;
  if (w.is_promote_exact && w.leader == m) {
    refresh(m, w.elected_ms);
    if (it->expires < before) it->expires = before;
  } else {
    refresh(m, w.now + (w.is_promote_exact ? 0 : w.election_ms));
  }
  tell(
      "the lessor of member %d is primary, the lease expires there at %" PRId64,
      m, it->expires);
}

typedef enum { RENEWED, GONE, REFUSED } renewal;

static renewal renew(int m) {
  member *it = &w.members[m];
  if (!it->is_primary) return REFUSED;
  /* A leader that has not applied the grant yet waits (etcd's waitAppliedIndex). */
  if (w.grant_at >= it->store) return REFUSED;
  if (!has_lease(it)) return GONE;
  if (w.now >= it->expires) return REFUSED;
  refresh(m, w.now);
  w.counts.renewals++;
  if (is_deposed(m)) w.counts.deposed_renewals++;
  if (m == w.leader && (w.is_carried || is_lease_gone()))
    w.counts.doomed_renewals++;
  tell("%s %d renews the lease until %" PRId64,
       is_deposed(m) ? "the deposed leader" : "leader", m, it->expires);
  return RENEWED;
}

/* A lessor that finds the lease expired revokes it through raft. */
static void on_expire(int m) {
  member *it = &w.members[m];
  int64_t wait = 0;
  it->is_expiry_set = false;
  if (!it->is_primary || it->is_down || !has_lease(it)) return;
  if (is_paused(m)) wait = it->paused_until - w.now + between(0, 3);
  if (w.now < it->expires) wait = it->expires - w.now + between(0, w.late_ms);
  if (wait == 0) {
    /* Fixed versions ask whether they lead, unless the member has ticked just now. */
    bool may = it->is_vulnerable || !is_hung(m) ||
               w.now - it->last_tick < RENEW_ACTIVE_MS;
    tell("the lease expires at member %d%s", m,
         may ? "" : ", which is not active");
    if (may) {
      post_stamped(DO_PROPOSE, m,
                   w.now + (w.is_commit_instant ? 0
                            : chance(90)        ? between(0, 20)
                                                : delay()),
                   (int64_t)it->lead_term);
    }
    wait = 3000; /* expiredLeaseRetryInterval */
  }
  it->is_expiry_set = true;
  post(DO_EXPIRE, m, w.now + wait);
}

/* The proposal reaches raft, which may have another leader by now. */
static void on_propose(int m, uint64_t term) {
  if (is_lease_gone() || w.members[m].is_down) return;
  if (is_paused(m)) {
    post_stamped(DO_PROPOSE, m, w.members[m].paused_until, (int64_t)term);
  } else if (w.leader == m && w.term == term) {
    w.is_revoking = true;
    w.is_revoke_replicated = is_leading(m);
    w.revoke_term = term;
    if (chance(w.expiry_fault_percent))
      post(DO_FAULT, m, w.now + between(0, 30));
    post_stamped(DO_REVOKE, m, w.now + (w.is_commit_instant ? 0 : delay()),
                 (int64_t)term);
  } else if (options.stale_revokes && (w.members[m].lead != m || is_hung(m))) {
    /* Its raft follows the new leader already. Otherwise the entry stays in its own log and is
     * lost. */
    int64_t at = is_hung(m) ? w.members[m].hung_until : w.now;
    post(DO_FORWARDED_REVOKE, m, at + delay());
  }
}

static void on_revoke(int m, uint64_t term) {
  if (!w.is_revoking || w.leader != m || w.term != term) return;
  if (is_leading(m) && w.is_led) {
    w.is_revoking = false;
    commit(REVOKE, term);
  } else {
    post_stamped(DO_REVOKE, m, w.now + 20, (int64_t)term);
  }
}

static void on_forwarded_revoke(int m) {
  if (is_lease_gone() || w.leader == NOBODY || !w.is_led ||
      !is_leading(w.leader))
    return;
  if (w.leader != m && !w.link[m][w.leader]) return;
  tell("member %d has forwarded its revoke to leader %d", m, w.leader);
  commit(REVOKE, w.term);
}

/* ---- elections ---- */

/* A follower that still hears the old leader refuses to vote (raft's check of the quorum). */
static bool may_vote(int m, bool is_transfer) {
  int lead = w.members[m].lead;
  if (!is_able(m)) return false;
  if (is_transfer || lead == NOBODY || lead == m) return true;
  return !(w.members[lead].lead == lead &&
           w.members[lead].lead_term == w.members[m].lead_term &&
           is_able(lead) && w.link[m][lead] && lead != w.leader);
}

static bool try_elect(bool is_transfer) {
  int winner = NOBODY, n_winners = 0, n_votes = 0;
  bool votes[MEMBERS_MAX] = {false};
  for (int i = 0; i < w.n; i++) {
    int n = 0;
    if (!is_able(i) || w.members[i].log < w.n_log ||
        (is_transfer && i == w.leader))
      continue;
    for (int j = 0; j < w.n; j++)
      n += i == j || (w.link[i][j] && may_vote(j, is_transfer));
    if (n < w.majority) continue;
    if (between(0, n_winners++) == 0) winner = i;
    if (is_transfer && w.is_slow_elected && i == w.slow_member) {
      winner = i;
      break;
    }
  }
  if (winner == NOBODY) return false;
  for (int i = 0; i < w.n; i++) {
    votes[i] = i == winner || (w.link[winner][i] && may_vote(i, is_transfer));
    n_votes += votes[i];
  }
  for (int i = 0; i < w.n; i++) {
    if (i == winner || !votes[i] || n_votes == w.majority || chance(50))
      continue;
    votes[i] = false;
    n_votes--;
  }
  w.is_carried = (w.is_revoking && w.is_revoke_replicated && chance(50)) ||
                 (w.is_carried && !w.is_led && chance(50));
  w.is_revoking = false;
  w.term++;
  w.leader = winner;
  w.elected_ms = w.now;
  w.is_led = false;
  w.lost_since = -1;
  w.counts.elections++;
  tell("member %d is elected (term %" PRIu64 ")%s", winner, w.term,
       w.is_carried ? ", with a revoke of the old leader in its log" : "");
  for (int i = 0; i < w.n; i++) {
    if (!votes[i]) continue;
    w.members[i].raft_term = w.term;
    if (i != winner) set_lead(i, NOBODY, 0);
    if (i != winner) post(DO_SYNC, i, w.now + delay());
  }
  demote(winner);
  w.members[winner].lead = winner;
  w.members[winner].lead_term = w.term;
  post_stamped(DO_EMPTY, winner, w.now + delay(), (int64_t)w.term);
  return true;
}

/* Elections and step-downs that follow if no quorum hears the leader from now on. */
static void recheck(void) {
  if (w.leader != NOBODY && is_leading(w.leader)) {
    w.lost_since = -1;
  } else if (w.lost_since < 0) {
    w.lost_since = w.now;
    post_stamped(DO_ELECT, 0,
                 w.now + w.election_ms +
                     (chance(40) ? 0 : between(0, w.election_ms)),
                 w.now);
    if (w.leader != NOBODY) {
      post_stamped(DO_STEP_DOWN, w.leader,
                   w.now + between(1, 2 * w.election_ms), (int64_t)w.term);
    }
  }
}

static void on_elect(int64_t lost_since) {
  if (w.lost_since != lost_since) return;
  if (!try_elect(false)) {
    post_stamped(DO_ELECT, 0,
                 w.now + between(w.election_ms / 10, w.election_ms),
                 lost_since);
  }
  recheck();
}

static void on_step_down(int m, uint64_t term) {
  member *it = &w.members[m];
  if (it->lead != m || it->lead_term != term || is_leading(m) || it->is_down)
    return;
  if (!is_able(m)) {
    int64_t until =
        it->hung_until > it->paused_until ? it->hung_until : it->paused_until;
    post_stamped(DO_STEP_DOWN, m, until + between(1, 2 * w.election_ms),
                 (int64_t)term);
    return;
  }
  if (w.leader == m) w.leader = NOBODY;
  set_lead(m, NOBODY, 0);
}

static void on_empty(int m, uint64_t term) {
  if (w.leader != m || w.term != term || w.is_led) return;
  if (!is_leading(m)) {
    post_stamped(DO_EMPTY, m, w.now + 20, (int64_t)term);
    return;
  }
  w.is_led = true;
  if (w.is_carried) commit(REVOKE, w.revoke_term);
  w.is_carried = false;
  commit(EMPTY, term);
}

/* ---- replication ---- */

static void receive_snapshot(int m) {
  member *it = &w.members[m], *leader = &w.members[w.leader];
  int to = leader->applied;
  if (to <= it->applied || to <= it->known || it->snap_to > 0) return;
  it->snap_to = to;
  it->snap_after = it->known;
  it->known = to;
  if (it->log < to) it->log = to;
  w.counts.snapshots++;
  tell("leader %d sends a snapshot to member %d (index %d)", w.leader, m, to);
  apply_soon(m, delay());
}

static void follow(int m) {
  member *it = &w.members[m], *leader = &w.members[w.leader];
  int64_t first = 0;
  it->raft_term = w.term;
  set_lead(m, w.leader, w.term);
  it->lose_at = w.now + w.election_ms + between(0, w.election_ms);
  if (options.snapshots > 0)
    first = position_of(leader->applied) - options.catchup;
  if (options.snapshots > 1 && leader->base > first) first = leader->base;
  if (position_of(it->log) < first) {
    receive_snapshot(m);
  } else if (it->log < leader->log || it->known < leader->known) {
    if (it->log < leader->log) it->log = leader->log;
    if (it->known < leader->known) it->known = leader->known;
    apply_soon(m, apply_delay(m));
  }
}

static bool hears_leader(int m) {
  int leader = w.leader;
  return leader != NOBODY && leader != m && is_able(leader) &&
         w.link[m][leader];
}

static void sync_member(int m) {
  member *it = &w.members[m];
  if (!is_able(m)) return;
  if (hears_leader(m)) {
    follow(m);
  } else if (it->lead != NOBODY && it->lead != m) {
    const member *old = &w.members[it->lead];
    if (old->lead == it->lead && old->lead_term >= it->raft_term &&
        is_able(it->lead) && w.link[m][it->lead]) {
      it->lose_at = w.now + w.election_ms + between(0, w.election_ms);
    } else if (w.now >= it->lose_at) {
      set_lead(m, NOBODY, 0);
    }
  }
}

static void on_sync(int m, bool is_regular) {
  sync_member(m);
  if (is_regular) {
    post_stamped(DO_SYNC, m,
                 w.now + between(w.election_ms / 10, w.election_ms / 2), 1);
  }
}

static void serve_waiting(int m, bool is_by_entry);

static void on_apply(int m) {
  member *it = &w.members[m];
  it->is_applying = false;
  if (!is_running(m)) return;
  if (it->snap_to > 0 && it->applied >= it->snap_after) {
    it->applied = it->snap_to;
    if (it->store < it->applied) it->store = it->applied;
    it->base = position_of(it->applied);
    it->snap_to = 0;
    tell("member %d has applied the snapshot, its term stays %" PRIu64, m,
         it->term);
    serve_waiting(m, false);
  } else if (it->applied < it->known) {
    const entry *at = &w.log[it->applied++];
    bool is_new = it->applied > it->store;
    if (is_new) it->store = it->applied;
    if (at->kind == EMPTY && it->lead == m) promote(m);
    if (at->kind == GRANT && is_new && it->is_primary) refresh(m, w.now);
    /* etcd sets the applied index before the term. */
    if (options.torn && chance(20)) serve_waiting(m, true);
    it->term = at->term;
    serve_waiting(m, true);
  }
  if (it->applied < it->known) apply_soon(m, apply_delay(m));
}

/* ---- faults ---- */

static void cut_client_soon(void) {
  if (w.is_granted && chance(w.cut_percent)) {
    post(DO_CUT_CLIENT, 0, w.now + between(0, chance(50) ? 100 : 1000));
  }
}

static int64_t fault_time(void) {
  switch (between(0, 3)) {
    case 0:
      return between(20, w.election_ms);
    case 1:
      return between(w.election_ms, 3 * w.election_ms);
    default:
      return between(w.election_ms, 3 * w.election_ms + w.ttl_ms * 3 / 2);
  }
}

static void hang(int m, int64_t until) {
  member *it = &w.members[m];
  if (is_hung(m) || it->is_down) return;
  it->last_tick = w.now;
  it->hung_until = until;
  tell("the raft loop of member %d (%s) hangs until %" PRId64, m,
       it->is_vulnerable ? "vulnerable" : "fixed", until);
  post(DO_UNHANG, m, until);
}

static void pause_process(int m, int64_t until) {
  member *it = &w.members[m];
  if (is_paused(m) || it->is_down) return;
  it->paused_until = until;
  tell("member %d stops until %" PRId64, m, until);
  post(DO_UNPAUSE, m, until);
}

/* Cuts links of |m|. Some members may still reach it and the others. */
static void cut_links(int m, int64_t until) {
  bool is_sided = chance(50);
  for (int i = 0; i < w.n; i++) {
    if (i == m || chance(25)) continue;
    w.link[m][i] = w.link[i][m] = false;
  }
  for (int i = 0; i < w.n && is_sided; i++) {
    for (int j = 0; j < w.n; j++) {
      if (i != m && j != m && w.link[m][i] != w.link[m][j])
        w.link[i][j] = w.link[j][i] = false;
    }
  }
  tell("member %d is cut off from most others until %" PRId64, m, until);
  post(DO_HEAL, m, until);
}

static void restart(int m, int64_t until) {
  member *it = &w.members[m];
  int from = it->snap_to > 0
                 ? it->snap_to
                 : (int)between(chance(50) ? it->applied : 0, it->applied);
  if (it->is_down) return;
  it->is_down = true;
  it->hung_until = it->paused_until = 0;
  demote(m);
  if (w.leader == m) w.leader = NOBODY;
  it->lead = NOBODY;
  if (it->store < from) it->store = from;
  it->applied = from;
  it->known = (int)between(from, it->known);
  it->snap_to = 0;
  it->base = position_of(from);
  it->term = 0;
  w.counts.restarts++;
  tell("member %d crashes and restarts at %" PRId64
       " from a snapshot at index %d",
       m, until, from);
  post(DO_UP, m, until);
}

typedef enum { HANG, PAUSE, CUT, TRANSFER, RESTART, N_FAULT_KINDS } fault_kind;

static void one_fault(fault_kind kind, int m, int64_t until) {
  if (kind == HANG) hang(m, until);
  if (kind == PAUSE) pause_process(m, until);
  if (kind == CUT) cut_links(m, until);
  if (kind == RESTART) restart(m, w.now + between(50, 3000));
}

static int count_able(void) {
  int n = 0;
  for (int i = 0; i < w.n; i++)
    n += is_able(i);
  return n;
}

static int choose_victim(int leader_percent) {
  if (w.favourite != NOBODY && chance(50)) return w.favourite;
  if (w.leader != NOBODY && chance(leader_percent)) return w.leader;
  return (int)between(0, w.n - 1);
}

/* Each schedule has only some kinds of faults, so that several of one kind meet often. */
static void choose_faults(void) {
  static const int *const allowed[N_FAULT_KINDS] = {
      &options.hang, &options.pause, &options.cut, &options.transfer,
      &options.restart};
  for (int i = 0; i < N_FAULT_KINDS; i++) {
    int n = *allowed[i] ? (int)between(0, 3) : 0;
    while (n-- > 0)
      w.fault_kinds[w.n_fault_kinds++] = i;
  }
  w.favourite = chance(30) ? (int)between(0, w.n - 1) : NOBODY;
  w.expiry_fault_percent = chance(50) ? (int)between(0, 80) : 0;
  w.burst_percent = chance(50) ? 20 : (int)between(0, 100);
}

static fault_kind choose_fault(void) {
  return (fault_kind)w.fault_kinds[between(0, w.n_fault_kinds - 1)];
}

/* The old leader often has a fault of its own while it hands its leadership over. */
static void transfer(int64_t until) {
  if (w.leader == NOBODY || !w.is_led || !is_leading(w.leader)) return;
  if (chance(50)) one_fault(choose_fault(), w.leader, until);
  if (w.leader == NOBODY) return;
  tell("leader %d hands its leadership over", w.leader);
  try_elect(true);
}

static void on_fault(void) {
  int64_t until = w.now + fault_time();
  fault_kind kind;
  if (w.n_fault_kinds == 0) return;
  kind = choose_fault();
  if (kind == TRANSFER) {
    transfer(until);
  } else {
    one_fault(kind, choose_victim(75), until);
    /* A second member, for about as long. */
    if (chance(40) && count_able() > w.majority) {
      one_fault(choose_fault(), choose_victim(0), until + between(-300, 300));
    }
  }
  recheck();
}

/* The leader and a second member fail together and miss many entries. The client speaks to them. */
static void on_double_fault(void) {
  int64_t until =
      w.now + between(2 * w.election_ms, 3 * w.election_ms + w.ttl_ms);
  int leader = w.leader, second = (int)between(0, w.n - 1);
  if (w.n_fault_kinds == 0 || leader == NOBODY) return;
  w.style = 1;
  w.switch_percent = 0;
  w.at[0] = chance(60) ? leader : second;
  w.at[1] = chance(50) ? leader : second;
  if (chance(70)) w.reach = (int)(1u << leader | 1u << second);
  one_fault(choose_fault(), leader, until);
  one_fault(choose_fault(), second,
            until + between(-w.election_ms, w.election_ms));
  for (int i = 0; i < 6; i++)
    post(DO_WRITE, 0, w.now + between(w.election_ms, until - w.now));
  w.burst_percent = chance(60) ? 70 : 0;
  w.cut_percent = 60;
  /* A leader that has restarted has no entries before its last snapshot. */
  for (int i = 0; i < w.n && options.restart; i++) {
    if (i == leader || i == second || chance(60)) continue;
    post(DO_CRASH, i, w.now + between(w.election_ms, until - w.now));
  }
  recheck();
}

static void on_crash(int m) {
  restart(m, w.now + between(50, 1000));
  recheck();
}

/* A member that runs again may take a while until it hears of the new leader. */
static void on_recovered(int m) {
  member *it = &w.members[m];
  it->last_tick = w.now;
  tell("member %d runs again", m);
  post(DO_SYNC, m,
       w.now + (chance(60) ? between(0, 5) : between(0, w.election_ms)));
  if (is_deposed(m)) {
    post_stamped(DO_STEP_DOWN, m, w.now + between(1, 2 * w.election_ms),
                 (int64_t)it->lead_term);
  }
  if (it->applied < it->known || it->snap_to > 0) apply_soon(m, apply_delay(m));
  watch_expiry(m);
  cut_client_soon();
  recheck();
}

static void on_heal(int m) {
  for (int i = 0; i < w.n; i++) {
    for (int j = 0; j < w.n; j++)
      w.link[i][j] = true;
  }
  tell("member %d is linked again", m);
  cut_client_soon();
  recheck();
}

/* ---- requests ---- */

static void again(int id, request_state state, int64_t in_ms) {
  w.requests[id].state = state;
  post(DO_REQUEST, id, w.now + in_ms);
}

static void answer(int id) { again(id, ANSWER, delay()); }

static void retry(int id, request_state state, int64_t in_ms) {
  request *it = &w.requests[id];
  if (w.now + in_ms < it->give_up) {
    again(id, state, in_ms);
  } else {
    it->state = DONE;
  }
}

/* etcd fills a keepalive's header before the renewal. */
static void on_keepalive_arrived(int id) {
  request *it = &w.requests[id];
  const member *at = &w.members[it->member];
  it->term = at->term;
  it->rev = rev_of(at->store);
  again(id, ROUTE, chance(95) ? 0 : delay());
}

static void route(int id) {
  request *it = &w.requests[id];
  member *at = &w.members[it->member];
  if (at->lead == it->member && at->is_primary) {
    if (at->is_vulnerable) {
      again(id, RENEW, 0);
    } else if (!is_hung(it->member) ||
               w.now - at->last_tick < RENEW_ACTIVE_MS) {
      again(id, RENEW, chance(80) ? 0 : chance(80) ? between(0, 20) : delay());
    } else {
      again(id, ENSURE, at->hung_until - w.now + between(0, 20));
    }
  } else if (at->lead == NOBODY || at->lead == it->member) {
    retry(id, ROUTE, 50);
  } else {
    it->target = at->lead;
    again(id, HTTP, delay());
  }
}

static void ensure(int id) {
  request *it = &w.requests[id];
  if (is_leading(it->member) && w.is_led &&
      w.members[it->member].lead == it->member) {
    again(id, RENEW, chance(80) ? 0 : delay());
  } else {
    it->state = DONE;
  }
}

static void on_renewed(int id, renewal result, bool is_here) {
  if (result == RENEWED && is_here) answer(id);
  if (result == RENEWED && !is_here) again(id, BACK, delay());
  if (result == REFUSED) retry(id, ROUTE, 50);
  if (result == GONE) w.requests[id].state = DONE;
}

static void renew_at(int id, int m, bool is_here) {
  member *at = &w.members[m];
  if (options.slow_renew && chance(30) && at->is_primary && has_lease(at) &&
      w.now < at->expires) {
    w.requests[id].target = m;
    again(id, REFRESH, between(0, 500));
    return;
  }
  on_renewed(id, renew(m), is_here);
}

static void refresh_late(int id) {
  request *it = &w.requests[id];
  member *at = &w.members[it->target];
  if (!at->is_primary || !has_lease(at)) {
    it->state = DONE;
    return;
  }
  refresh(it->target, w.now);
  tell("leader %d renews the lease late, until %" PRId64, it->target,
       at->expires);
  on_renewed(id, RENEWED, it->target == it->member);
}

/* The handler for forwarded renewals does not ask whether its member leads, in any version. */
static void on_http(int id) {
  request *it = &w.requests[id];
  if (w.members[it->target].is_down || !w.link[it->member][it->target]) {
    retry(id, ROUTE, 50);
  } else if (is_paused(it->target)) {
    again(id, HTTP, w.members[it->target].paused_until - w.now + between(0, 3));
  } else {
    renew_at(id, it->target, false);
  }
}

static void wait_applied(int id) {
  w.requests[id].state = WAIT;
  w.waiting[w.n_waiting++] = id;
}

/* Returns who confirms a read of the member, or NOBODY. */
static int find_confirmer(int m) {
  int lead = w.members[m].lead;
  if (w.leader != NOBODY && w.is_led && is_leading(w.leader) &&
      (m == w.leader || hears_leader(m))) {
    return w.leader;
  }
  if (options.stale_reads && lead != NOBODY && is_deposed(lead) &&
      is_able(lead) && w.link[m][lead] && chance(30)) {
    return lead;
  }
  return NOBODY;
}

static void confirm(int id) {
  request *it = &w.requests[id];
  member *at = &w.members[it->member];
  int by = is_able(it->member) ? find_confirmer(it->member) : NOBODY;
  if (by == NOBODY || (it->kind != READ && by != w.leader)) {
    int64_t wait = between(5, 300);
    if (is_hung(it->member)) wait = at->hung_until - w.now + between(0, 20);
    retry(id, CONFIRM, wait);
    return;
  }
  if (by == w.leader && by != it->member) follow(it->member);
  if (it->kind == READ) {
    it->index = w.members[by].known;
    if (by != w.leader)
      tell("the deposed leader %d confirms a read at member %d", by,
           it->member);
  } else {
    commit(it->kind == GRANTING ? GRANT : NORMAL, w.term);
    it->index = w.n_log;
  }
  wait_applied(id);
  if (at->applied >= it->index) serve_waiting(it->member, false);
}

/* Serves the requests that wait for what the member has applied now: an entry, or a snapshot. */
static void serve_waiting(int m, bool is_by_entry) {
  for (int i = 0; i < w.n_waiting; i++) {
    int id = w.waiting[i];
    request *it = &w.requests[id];
    const member *at = &w.members[it->member];
    if (it->member != m || at->applied < it->index) continue;
    w.waiting[i--] = w.waiting[--w.n_waiting];
    /* A write is answered when its entry is applied. A snapshot that contains it gives no answer.
     */
    if (!has_lease(at) ||
        (it->kind != READ && (at->applied != it->index || !is_by_entry))) {
      it->state = DONE;
      continue;
    }
    it->rev = rev_of(at->store);
    it->term = at->term;
    if (chance(80) || it->kind == GRANTING) {
      answer(id);
    } else {
      again(id, FILL, chance(90) ? between(0, 5) : delay());
    }
  }
}

static void fill(int id) {
  request *it = &w.requests[id];
  it->term = w.members[it->member].term;
  answer(id);
}

/* ---- the client ---- */

static bool is_reachable(int m) {
  return !w.is_cut_off && (w.reach >> m & 1) != 0;
}

static int choose_member(int use) {
  if (w.style == 2) return (int)between(0, w.n - 1);
  if (w.style == 0) use = 0;
  if (chance(w.switch_percent)) w.at[use] = (int)between(0, w.n - 1);
  return w.at[use];
}

static void send_request(request_kind kind, int m) {
  request *it;
  if (w.n_requests == REQUESTS_MAX) return;
  it = &w.requests[w.n_requests];
  *it = (request){.kind = kind, .member = m, .sent_ms = client_now()};
  it->give_up = w.now + 5000 + 2 * w.election_ms;
  /* Keepalives to a slow member may wait for long: it is slow to serve, too. */
  again(w.n_requests++, ARRIVE,
        w.is_slow_elected && m == w.slow_member && kind == KEEPALIVE &&
                chance(50)
            ? between(0, w.ttl_ms)
            : delay());
}

static void add_seen(void) {
  el_sight seen = w.proof.seen;
  if (seen.sent_ms == 0 || (options.max_term && seen.term < w.max_term)) return;
  if (el_lease_proof_add_sight(&w.proof, &seen, client_now()) != NULL)
    w.counts.proofs++;
}

static void on_keepalive_answered(const request *from) {
  el_renewal it = {.sent_ms = from->sent_ms,
                   .answered_ms = client_now(),
                   .ttl_ms = w.ttl_ms,
                   .member = (uint64_t)(MEMBER_ID_BASE + from->member),
                   .term = from->term,
                   .rev = from->rev,
                   .is_grant = from->kind == GRANTING};
  el_lease_proof_add_renewal(&w.proof, &it);
  add_seen();
}

/* A member that has applied an entry after a snapshot answers with that entry's term. So its sight
 * is as good as without snapshots, if a later one has the same term and shows one more entry. */
static bool find_grown(const el_sight *later, int m, el_sight *to) {
  el_sight earlier = w.last[m];
  bool is_grown = earlier.sent_ms != 0 && later->term == earlier.term &&
                  later->sent_ms >= w.last_answered_ms[m] &&
                  later->rev > earlier.rev &&
                  later->rev - earlier.rev < options.catchup;
  /* A newer sight with the same revision would only postpone the proof. */
  if (earlier.term != later->term || later->rev != earlier.rev) {
    w.last[m] = *later;
    w.last_answered_ms[m] = client_now();
  }
  *to = earlier;
  return is_grown;
}

static void on_sight_answered(const request *from) {
  el_sight it = {.sent_ms = from->sent_ms,
                 .member = (uint64_t)(MEMBER_ID_BASE + from->member),
                 .term = from->term,
                 .rev = from->rev};
  if (options.max_term && it.term < w.max_term) return;
  if (options.grow && !find_grown(&it, from->member, &it)) return;
  if (el_lease_proof_add_sight(&w.proof, &it, client_now()) != NULL)
    w.counts.proofs++;
}

static void start_client(void) {
  w.is_granted = true;
  post(DO_KEEPALIVE, 0, w.now + between(0, w.keepalive_ms));
  post(DO_SIGHT, 0, w.now + between(0, w.sight_ms));
}

static void on_answer(int id) {
  static const char *const names[] = {"keepalive", "read", "write", "grant"};
  request *it = &w.requests[id];
  int64_t before = w.proof.alive_until;
  bool was_over = client_now() >= before;
  it->state = DONE;
  if (it->kind != GRANTING &&
      (chance(w.loss_percent) || (w.reach >> it->member & 1) == 0))
    return;
  if (w.is_cut_off && w.is_answer_lost_after_cut) return;
  if (it->term > w.max_term) w.max_term = it->term;
  if (it->kind == KEEPALIVE || it->kind == GRANTING) {
    on_keepalive_answered(it);
  } else {
    on_sight_answered(it);
  }
  if (was_over && w.proof.alive_until > before) w.counts.revived++;
  tell("client: %s of %" PRId64 " answered by member %d, term %" PRIu64
       ", revision %" PRId64 ": alive until %" PRId64 "%s",
       names[it->kind], it->sent_ms, it->member, it->term, it->rev,
       w.proof.alive_until, w.proof.alive_until > before ? " (later)" : "");
  if (it->kind == GRANTING) start_client();
  check_promise();
}

static void on_request_arrived(int id) {
  request *it = &w.requests[id];
  if (it->kind != GRANTING &&
      (!is_reachable(it->member) || chance(w.loss_percent))) {
    it->state = DONE;
  } else if (it->kind == KEEPALIVE) {
    on_keepalive_arrived(id);
  } else {
    confirm(id);
  }
}

static void on_request(int id) {
  request *it = &w.requests[id];
  const member *at = &w.members[it->member];
  if (it->state == ANSWER) {
    on_answer(id);
    return;
  }
  if (at->is_down && it->kind != GRANTING) {
    it->state = DONE;
    return;
  }
  if (!is_running(it->member) && it->state != HTTP && it->state != REFRESH) {
    /* What has reached a stopped process is done when it runs again. */
    int64_t until = at->is_down ? w.now + 20 : at->paused_until;
    again(id, it->state, until - w.now + between(0, 3));
    return;
  }
  switch (it->state) {
    case ARRIVE:
      on_request_arrived(id);
      break;
    case ROUTE:
      route(id);
      break;
    case ENSURE:
      ensure(id);
      break;
    case RENEW:
      renew_at(id, it->member, true);
      break;
    case HTTP:
      on_http(id);
      break;
    case REFRESH:
      refresh_late(id);
      break;
    case BACK:
      answer(id);
      break;
    case CONFIRM:
      confirm(id);
      break;
    case FILL:
      fill(id);
      break;
    case WAIT:
    case ANSWER:
    case DONE:
      break;
  }
}

static void on_cut_client(void) {
  if (w.is_cut_off) return;
  w.is_cut_off = true;
  tell("the client is cut off; its clock shows %" PRId64, client_now());
  w.end = w.now + 3 * (w.ttl_ms + w.election_ms) + 4000;
}

static void on_client_sends(event_kind kind) {
  if (w.is_cut_off) return;
  if (kind == DO_KEEPALIVE) {
    send_request(KEEPALIVE, choose_member(0));
    post(kind, 0, w.now + between(1, 2 * w.keepalive_ms));
  } else {
    send_request(chance(w.write_percent) ? WRITE : READ, choose_member(1));
    post(kind, 0, w.now + between(1, 2 * w.sight_ms));
  }
}

/* ---- schedules ---- */

static void dispatch(const event *it) {
  switch ((event_kind)it->kind) {
    case DO_SYNC:
      on_sync(it->who, it->stamp != 0);
      break;
    case DO_APPLY:
      on_apply(it->who);
      break;
    case DO_EMPTY:
      on_empty(it->who, (uint64_t)it->stamp);
      break;
    case DO_WRITE:
      if (w.is_led && is_leading(w.leader)) commit(NORMAL, w.term);
      break;
    case DO_FAULT:
      on_fault();
      break;
    case DO_DOUBLE_FAULT:
      on_double_fault();
      break;
    case DO_CRASH:
      on_crash(it->who);
      break;
    case DO_UNHANG:
    case DO_UNPAUSE:
      if (w.members[it->who].is_down || !is_able(it->who)) break;
      on_recovered(it->who);
      break;
    case DO_HEAL:
      on_heal(it->who);
      break;
    case DO_UP:
      w.members[it->who].is_down = false;
      on_recovered(it->who);
      break;
    case DO_ELECT:
      on_elect(it->stamp);
      break;
    case DO_STEP_DOWN:
      on_step_down(it->who, (uint64_t)it->stamp);
      break;
    case DO_EXPIRE:
      on_expire(it->who);
      break;
    case DO_PROPOSE:
      on_propose(it->who, (uint64_t)it->stamp);
      break;
    case DO_REVOKE:
      on_revoke(it->who, (uint64_t)it->stamp);
      break;
    case DO_FORWARDED_REVOKE:
      on_forwarded_revoke(it->who);
      break;
    case DO_KEEPALIVE:
    case DO_SIGHT:
      on_client_sends((event_kind)it->kind);
      break;
    case DO_REQUEST:
      on_request(it->who);
      break;
    case DO_CUT_CLIENT:
      on_cut_client();
      break;
  }
}

static void choose_cluster(void) {
  int64_t ttl_s;
  w.n = options.members != 0 ? options.members : chance(50) ? 3 : 5;
  w.majority = w.n / 2 + 1;
  w.election_ms = chance(40) ? 1000 : between(100, 2000);
  ttl_s = (3 * w.election_ms / 2 + 999) / 1000;
  if (ttl_s < 2) ttl_s = 2;
  w.ttl_ms = 1000 * between(ttl_s, chance(80) ? ttl_s + 2 : 10);
  w.late_ms = chance(60) ? 0 : between(0, 500);
  w.pace_ms = chance(60) ? between(0, 10) : between(0, 100);
  w.tail_percent = chance(40) ? 0 : (int)between(1, 15);
  w.bump_percent = options.bump >= 0 ? options.bump
                   : chance(30)      ? 100
                                     : (int)between(0, 100);
  w.write_percent = options.writes >= 0 ? options.writes
                    : chance(50)        ? 0
                                        : (int)between(0, 100);
  w.loss_percent = chance(50) ? 0 : (int)between(0, 30);
  w.slow_member = chance(30) ? (int)between(0, w.n - 1) : NOBODY;
  choose_faults();
  w.is_promote_exact =
      options.promote == BY_SEED ? chance(50) : options.promote == EXACT;
  w.is_commit_instant = chance(60);
  w.term = (uint64_t)between(1, 3);
  w.leader = (int)between(0, w.n - 1);
  w.is_led = true;
  w.lost_since = -1;
  w.grant_at = w.revoke_at = INT_MAX;
  w.log[0] = (entry){EMPTY, w.term, 1, 1};
  w.n_log = 1;
  for (int i = 0; i < w.n; i++) {
    member *it = &w.members[i];
    for (int j = 0; j < w.n; j++)
      w.link[i][j] = true;
    it->is_vulnerable =
        options.versions == MIXED ? chance(50) : options.versions == VULNERABLE;
    it->raft_term = it->lead_term = it->term = w.term;
    it->lead = w.leader;
    it->lose_at = 2 * w.election_ms;
    it->log = it->known = it->applied = it->store = 1;
    it->is_primary = i == w.leader;
    post_stamped(DO_SYNC, i, between(0, w.election_ms / 2), 1);
  }
}

/* The slow member may begin with the leader's first entry unapplied. */
static void delay_first_entry(void) {
  member *it = &w.members[w.slow_member];
  if (w.slow_member == w.leader || (!w.is_slow_elected && chance(50))) return;
  it->applied = it->store = 0;
  it->term--;
  apply_soon(w.slow_member, between(w.ttl_ms / 2, 2 * w.ttl_ms));
}

/* When the lease expires, the leader hands over to a member that is still busy with old entries. */
static void choose_slow_successor(void) {
  int n = options.transfer ? 12 : 0;
  w.slow_member = (w.leader + (int)between(1, w.n - 1)) % w.n;
  w.is_slow_elected = true;
  w.is_commit_instant = false;
  w.expiry_fault_percent = 90;
  w.tail_percent = (int)between(10, 50);
  w.at[0] = w.at[1] = w.slow_member;
  w.keepalive_ms = (int)between(w.ttl_ms / 4, w.ttl_ms);
  while (n-- > 3 && w.n_fault_kinds < FAULTS_MAX)
    w.fault_kinds[w.n_fault_kinds++] = TRANSFER;
}

static void choose_client(int64_t active_ms) {
  int64_t least = active_ms / 100 + 1;
  w.clock_base = between(1, 100000);
  w.is_clock_wrong = options.clocks < 0 ? chance(50) : options.clocks != 0;
  w.clock_rate =
      w.is_clock_wrong ? (chance(50) ? 9900 : between(9900, 10100)) : 10000;
  w.reach = chance(60)
                ? ~0
                : (int)(1u << between(0, w.n - 1) | 1u << between(0, w.n - 1));
  w.style = (int)between(0, 2);
  w.switch_percent = chance(50) ? 0 : (int)between(1, 20);
  w.at[0] = chance(50) ? w.leader : (int)between(0, w.n - 1);
  w.at[1] = chance(50) ? w.at[0] : (int)between(0, w.n - 1);
  w.keepalive_ms =
      (int)between(least, least + (chance(50) ? 100 : w.ttl_ms / 3));
  if (chance(20)) w.keepalive_ms = (int)between(w.ttl_ms / 4, w.ttl_ms);
  w.sight_ms = (int)between(least, least + (chance(50) ? 100 : w.ttl_ms / 3));
  w.cut_percent = (int)between(0, 40);
  w.is_answer_lost_after_cut = chance(50);
}

static void choose_schedule(void) {
  int64_t active_ms;
  int n;
  choose_cluster();
  active_ms = between(w.ttl_ms / 4, 3 * w.ttl_ms + 2 * w.election_ms);
  choose_client(active_ms);
  if (chance(15)) {
    choose_slow_successor();
    if (active_ms < 2 * w.ttl_ms) active_ms += w.ttl_ms;
  }
  if (w.slow_member != NOBODY) delay_first_entry();
  send_request(GRANTING, (int)between(0, w.n - 1));
  post(DO_CUT_CLIENT, 0, active_ms);
  if (chance(15)) post(DO_DOUBLE_FAULT, 0, between(0, w.ttl_ms));
  n = (int)between(1, 4);
  for (int i = 0; i < n; i++)
    post(DO_FAULT, 0, between(0, active_ms));
  n = (int)between(0, 12);
  for (int i = 0; i < n; i++)
    post(DO_WRITE, 0, between(0, active_ms + w.ttl_ms));
  w.end = active_ms + 10 * w.ttl_ms;
}

/* Nothing more can break after the client's last answer, once the promised time is over. */
static bool is_over(void) {
  if (w.is_broken) return true;
  if (!w.is_cut_off || client_now() < promised_until()) return false;
  if (w.is_answer_lost_after_cut) return true;
  for (int i = 0; i < w.n_requests; i++) {
    if (w.requests[i].state != DONE) return false;
  }
  return true;
}

static void run(uint64_t seed, bool is_verbose) {
  /* The events need no clearing: that would take longer than the schedule. */
  memset(&w, 0, offsetof(world, events));
  memset(&w.members, 0, sizeof w - offsetof(world, members));
  w.n_events = 0;
  w.random = seed * 0x2545f4914f6cdd1du;
  w.is_verbose = is_verbose;
  choose_schedule();
  tell("%d members, leader %d, election timeout %" PRId64 ", TTL %" PRId64
       ", clock rate %" PRId64 "/10000, Promote adds %s",
       w.n, w.leader, w.election_ms, w.ttl_ms, w.clock_rate,
       w.is_promote_exact ? "nothing" : "an election timeout");
  for (int i = 0; w.n_events > 0; i++) {
    event it = take();
    w.now = (int64_t)(it.key >> 20);
    if (w.now > w.end) break;
    dispatch(&it);
    if ((w.is_broken || i % 16 == 0) && is_over()) break;
  }
}

static void add_counts(void) {
  const int64_t *from = (const int64_t *)&w.counts;
  int64_t *to = (int64_t *)&total;
  for (size_t i = 0; i < sizeof total / sizeof *to; i++)
    to[i] += from[i];
}

static void print_stats(void) {
  printf("%" PRId64 " elections, %" PRId64 " restarts, %" PRId64
         " snapshots, %" PRId64 " early promotions, %" PRId64
         " renewals (%" PRId64 " by deposed leaders"
         " and %" PRId64 " by leaders with a revoke in their log), %" PRId64
         " leases ended, %" PRId64 " revived by a proof\n",
         total.elections, total.restarts, total.snapshots,
         total.early_promotions, total.renewals, total.deposed_renewals,
         total.doomed_renewals, total.revokes, total.revived);
}

static int run_many(uint64_t from, uint64_t count) {
  uint64_t n_broken = 0;
  for (uint64_t seed = from; seed < from + count; seed++) {
    run(seed, false);
    add_counts();
    if (!w.is_broken) continue;
    if (n_broken++ == 0 || options.all > 1) {
      printf("schedule %" PRIu64 " breaks the promise: %s\n", seed, w.verdict);
    }
    if (!options.all) break;
  }
  if (options.stats) print_stats();
  if (n_broken > 0 && options.all) {
    printf("%" PRIu64 " of %" PRIu64 " schedules break the promise\n", n_broken,
           count);
  }
  if (n_broken > 0) return 1;
  printf("%" PRIu64 " schedules, %" PRId64 " proofs: no promise broken\n",
         count, total.proofs);
  return 0;
}

/* ---- arguments ---- */

static bool read_value(const char *text, int *to) {
  char *end;
  long value = strtol(text, &end, 10);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strcmp(text, words[i].word) != 0) continue;
    *to = words[i].value;
    return true;
  }
  *to = (int)value;
  return end != text && *end == '\0';
}

static bool read_option(const char *text) {
  const char *value = strchr(text, '=');
  if (value == NULL) return false;
  for (size_t i = 0; i < sizeof option_names / sizeof *option_names; i++) {
    const char *name = option_names[i].name;
    if (strlen(name) != (size_t)(value - text) ||
        strncmp(text, name, strlen(name)) != 0)
      continue;
    return read_value(value + 1, option_names[i].value);
  }
  return false;
}

static int usage(void) {
  fprintf(stderr, "usage: build/model/rule FROM COUNT [NAME=VALUE...]\n"
                  "       build/model/rule SEED [NAME=VALUE...]\nnames:");
  for (size_t i = 0; i < sizeof option_names / sizeof *option_names; i++) {
    fprintf(stderr, " %s", option_names[i].name);
  }
  fputc('\n', stderr);
  return 2;
}

int main(int argc, char **argv) {
  uint64_t numbers[2] = {0, 0};
  int n = 0;
  for (int i = 1; i < argc; i++) {
    char *end;
    uint64_t number = strtoull(argv[i], &end, 10);
    if (end != argv[i] && *end == '\0' && n < 2) {
      numbers[n++] = number;
    } else if (!read_option(argv[i])) {
      return usage();
    }
  }
  if (n == 0) return usage();
  if (n == 2) return run_many(numbers[0], numbers[1]);
  run(numbers[0], true);
  printf("schedule %" PRIu64 ": %s\n", numbers[0],
         w.is_broken ? w.verdict : "no promise broken");
  return w.is_broken ? 1 : 0;
}
