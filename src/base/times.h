/* times: the times and factors of the core, with their reasons.
 *
 * Milliseconds unless the name tells another unit. A name that ends with _ANSWERS is a multiple of
 * the time for an answer (net/patience.h), and one with _DIVISOR a part of the TTL, unless the
 * comment names another time.
 * "row" is a row of `make networks` or of `build/simulation/simulation scenes` that gets worse
 * without the value. spec/documentation/times_spec.lua compares the documents with this file. */
#ifndef ETCDLOCK_BASE_TIMES_H
#define ETCDLOCK_BASE_TIMES_H

/* ---- patience: when a member or a connection counts as dead ---- */

enum {
  /* The least time for an answer. A follower may be silent until the members have elected a leader,
   * which takes 1 s to 2 s; a request must be sent again soon after that. Row: busy, a member
   * hangs. */
  EL_ANSWER_MS = 600,
  /* The same until etcd has first answered. A connection tells how far etcd is, but not how slow
   * its disk is, and a write that is sent again makes a slow disk slower. Rows: rtt 700 and
   * more; disk 300 ms and more. */
  EL_FIRST_ANSWER_MS = 1200,
  /* How many times as long an answer may take if there is no other member: another connection takes
   * round trips, and is seldom better. Rows: 1 member, loss; 1 member, disk 700 ms, busy. */
  EL_ALONE_FACTOR = 2,
  /* The factor applies up to this time, so that a call without a limit of its own (EL_CALL_MS)
   * finds out that its connection is dead. */
  EL_ALONE_MOST_MS = 4500,
  /* How often the time for an answer may double: 16 times 0.6 s is longer than etcd's own limit of
   * 7 s (ReqTimeout in server/config). Rows: rtt 1500; keepalives are late. */
  EL_ANSWER_DOUBLINGS = 4,
  /* The longest time with which one answer counts in the estimate. Otherwise a process that stood
   * still for 20 s would wait as long for a member that hangs. */
  EL_SAMPLE_MOST_ANSWERS = 2,
  /* One attempt of a call may take this long, because a call to a member that answers other calls
   * is only slow. A member that answers none is left after one time for an answer. Row: 3
   * members, disk 700 ms, busy. */
  EL_ATTEMPT_ANSWERS = 5,
  /* The time for an attempt to connect, which takes two round trips, up to four with TLS, whose
   * handshake also needs the processors of both sides. If a packet of an attempt is lost, the
   * kernel repeats it after 1 s, and again after 2 s more. A new attempt sends a packet at once, so
   * EL_ALONE_FACTOR does not apply. Rows: rtt 700 and more. */
  EL_CONNECT_ANSWERS = 2,
  EL_CONNECT_TLS_ANSWERS = 4,
  /* The longest time of an attempt. gRPC cannot be shut down while an attempt is under way, so a
   * client that is closed may keep its thread for so long. */
  EL_CONNECT_MOST_MS = 10000,
  /* How long a name server may take. Then the addresses known so far are used, because some name
   * servers never answer for IPv6. If no address is known, the name server is asked again, because
   * the question may have been lost. */
  EL_NAME_MS = 1500,
  /* The same in the attempt after a short one that found no address, so that the second name server
   * can answer: the resolver asks that server after 5 s, and gRPC lets the resolver look at the
   * clock once a second. */
  EL_NAME_LONG_MS = 8000,
  /* How long a failed call counts against its member: for so long, failed requests are not repeated
   * at once there. Then the member's gRPC channel is made anew if it has failed to connect. */
  EL_FAILED_MS = 300,
  /* How long etcd may take to answer a ping of HTTP/2: it took up to 8 s while it hashed the
   * passwords of 200 clients (`make fleets`). For the same time, the answer to a read shows that
   * etcd is alive, and only busy with passwords. */
  EL_BUSY_MS = 20000,
  /* How long an Authenticate may take: with 200 clients on a busy machine the last one took 28 s
   * (`make fleets`). A dead connection ends it earlier, unless a proxy answers the pings in place
   * of etcd. */
  EL_AUTHENTICATE_MS = 60000
};

/* ---- pauses between requests, and the limits of calls ---- */

enum {
  /* The pause before a failed request is sent again doubles from the first to the last of these. An
   * election takes one or two seconds, so its end is noticed soon, at little cost. */
  EL_PAUSE_FIRST_MS = 50,
  EL_PAUSE_LAST_MS = 200,
  /* The pause before a request is sent again at once, for example to another member. Without it,
   * two members that refuse at once would be asked thousands of times a second. */
  EL_AT_ONCE_MS = 10,
  /* The longest pause after a refusal whose cause an operator has to remove, for example a missing
   * permission; the shortest is 3/4 of it. So a refused request is sent about once a second. */
  EL_REFUSED_MS = 1000,
  /* How long a call without its own limit may take: longer than an election (EL_ELECTION_MS). */
  EL_CALL_MS = 5000,
  /* How long the circuit breaker stays open after a request has found etcd unreachable. Then
   * another request may find out whether etcd answers again. */
  EL_FAIL_FAST_MS = 2000,
  /* How long a wait without a timeout may last if etcd has never answered, and the cause is not
   * known (if it is: EL_CALL_MS). It is enough for two attempts to connect with the longest limit:
   * a load balancer may lead the first to a member that hangs. */
  EL_FIRST_CONTACT_MS = 30000
};

/* ---- a lease ---- */

enum {
  /* A keepalive is sent every TTL/3, as by etcd's clients. If less than EL_ELECTION_MS plus the
   * time for an answer would be left of the hold by then, it is sent earlier, but not before TTL/5.
   * Otherwise a hold would not outlive the loss of the leader just before a keepalive. Rows: votes
   * are split; leaders stand still. */
  EL_RENEW_DIVISOR = 3,
  EL_RENEW_OFTEN_DIVISOR = 5,
  /* An election takes 1 s to 2 s, and 3 s if the votes are split; then the client has to find the
   * new leader. Rows: as before. */
  EL_ELECTION_MS = 4000,
  /* How long a read may wait for the end of an election: longer than etcd's own limit of 7 s. Rows:
   * a slow election; leaders stand still. */
  EL_ELECTION_READ_MS = 10000,
  /* If an answer may take TTL/4 or longer, a keepalive is sent every TTL/10: its answer may be
   * late. Rows: rtt 700, TTL 4.2 s and 4.9 s, a member hangs; rtt 1000,
   * loss. */
  EL_SLOW_DIVISOR = 4,
  EL_RENEW_SLOW_DIVISOR = 10,
  /* If no hold is proven, a proof counts only if it leaves more time of the hold than an answer may
   * take, or more than TTL/2: a lock must be granted even if answers stay slow. Rows: disk 700 ms,
   * rtt 700 and more, TTL 5: etcd then answers reads in batches, one every 1.5 s to 2 s. With
   * TTL/3, 3 of 24 holds were lost. */
  EL_PROOF_DIVISOR = 2,
  /* A TTL needs at least this many round trips: a proof takes two, and the answer to a packet that
   * was lost comes one or two round trips later. */
  EL_TTL_ANSWERS = 4,
  /* Waits fail if answers have taken too long for the TTL, and no hold was proven, for this many
   * TTLs. A disk may be busy for a while only. Rows: as for EL_PROOF_DIVISOR. */
  EL_UNPROVEN_TTLS = 4,
  /* The time from a keepalive that is not proven, or whose member or leader was left, to the next
   * one. An election takes 1 s or longer. With four keepalives a second, the new leader renews the
   * lease soon after it. Rows: leaders stand still, rtt 100 and 200. */
  EL_REPROVE_MS = 250,
  /* A sight of a key counts as fresh for so long, but only while TTL/2 is left of the hold. A key
   * is read again before a grant if it was not seen for so long: an admin may have deleted it. */
  EL_FRESH_PROOF_MS = 1000,
  EL_FRESH_DIVISOR = 2,
  /* A hold ends before the TTL by a margin: TTL/10, within these limits. It covers clocks whose
   * rates differ, by 10 % up to a TTL of 40 s and by more than 1 % at the longest TTL (300 s), and
   * the time between a check by the caller and its use of the lock. */
  EL_MARGIN_DIVISOR = 10,
  EL_MARGIN_LEAST_MS = 200,
  EL_MARGIN_MOST_MS = 4000,
  /* A key that is put late blocks other clients until an audit finds it. Most late puts are applied
   * soon, so the pause between the audits doubles from the first to the last of these. */
  EL_AUDIT_FIRST_MS = 500,
  EL_AUDIT_LAST_MS = 8000
};

/* ---- connections and diagnoses ---- */

enum {
  /* Between two HTTP/2 pings on a connection with calls. etcd closes a connection if pings come
   * less than 5 s apart (MinTime in server/embed/etcd.go). */
  EL_PING_EVERY_MS = 6000,
  /* How long the kernel of the other side may take to confirm data (TCP_USER_TIMEOUT). It does not
   * depend on how busy etcd is. */
  EL_USER_TIMEOUT_MS = 2000,
  /* By how much later than at its limit gRPC may end an attempt to connect. gRPC's timers are due
   * within milliseconds; the rest is for a busy machine. */
  EL_CONNECT_MARGIN_MS = 100,
  /* Half of the time to connect counts as the time of an answer: to connect takes two round trips,
   * more with TLS, and only one if a proxy accepts the connection. */
  EL_CONNECTION_DIVISOR = 2,
  /* Between two looks whether the connection that a call waits for is there: twelve in the least
   * time for an answer. */
  EL_LOOK_MS = 50,
  /* How long a diagnosis of a failed connection may take. It is short, because errors may wait for
   * its result. */
  EL_DIAGNOSIS_MS = 1000,
  /* The least time between the starts of two diagnoses of a member: each costs a thread and a
   * connection. */
  EL_DIAGNOSE_EVERY_MS = 2000,
  /* How long a cause is reported: longer than EL_DIAGNOSE_EVERY_MS plus EL_DIAGNOSIS_MS, so that
   * the next diagnosis ends before that. */
  EL_CAUSE_MS = 5000,
  /* How long the end of a channel waits for the threads of its diagnoses. They end at once, unless
   * they are in a call of the resolver. */
  EL_DIAGNOSES_STOP_MS = 100
};

/* ---- passwords ---- */

enum {
  /* The longest pause before the next Authenticate. It doubles with each Authenticate in a row that
   * was in vain, up to 8 s. The pause is a random part of it. Row of `make fleets`: start-90. */
  EL_LOGIN_PAUSE_MS = 250,
  EL_LOGIN_DOUBLINGS = 5,
  /* For how long calls fail without a request after etcd has refused Authenticate. Otherwise many
   * calls with a wrong password would keep etcd busy with hashes. It doubles with each refusal in a
   * row, up to 8 s. */
  EL_LOGIN_REFUSED_MS = 1000,
  EL_LOGIN_REFUSED_DOUBLINGS = 3,
  /* The pause between the reads that a client sends while it waits for an Authenticate. Their
   * answers show that etcd is alive, and only busy with the hashes of passwords. Many clients may
   * wait at the same time, so each sends few reads. */
  EL_LOGIN_READ_MS = 1000
};

/* ---- what requests cost etcd ---- */

enum {
  /* between two background requests, for example deletes of keys whose wait was given up: an etcd
   * that has just come back must not be loaded */
  EL_BACKGROUND_EVERY_MS = 10,
  /* The longest wait of a batch for the answer to an earlier one. A member that hangs must not
   * delay requests that another could answer. */
  EL_BATCH_WAIT_MS = 100,
  /* The largest difference between the remaining time of a batch's first request and that of each
   * other one. The batch has the shortest time: a larger difference would end some too early. */
  EL_BATCH_SPREAD_MS = 500,
  /* For how long no batch is sent after the answer to a batch was too large, or etcd had no space:
   * the quota check of etcd does not see the puts of nested transactions (quota.go, costTxnReq). */
  EL_UNBATCHED_MS = 10000,
  /* A hold that lasts longer watches its own key; a shorter one saves the watch. (A hold that was
   * handed off watches it at once.) */
  EL_WATCH_HOLD_MS = 50,
  /* After a wait of this time, the entry reads who holds the lock, for messages. Most waits are
   * shorter. */
  EL_FIRST_READ_MS = 250,
  /* How often a waiter reads the queue in case its watch has missed an event; if the TTL is longer,
   * every TTL. */
  EL_REREAD_MS = 10000,
  /* How long a watch is kept for the next wait for the same key: longer than all clients of a busy
   * queue need to hold the lock once. */
  EL_WATCH_KEPT_MS = 1000
};

/* ---- threads and clocks ---- */

enum {
  /* The longest sleep in gRPC while a timer is set. gRPC sleeps by a clock that stands still while
   * the machine is suspended. So after a suspension a timer is late by at most this time. */
  EL_SLEEP_MOST_MS = 1000,
  /* If the timer of a session is late by this much, the process or the machine has stood still. A
   * shorter delay may be due to a busy machine. */
  EL_STANDSTILL_MS = 1000,
  /* How long the I/O thread leaves a released loop to Lua threads: a Lua thread that makes another
   * request mostly does so sooner. */
  EL_RELEASED_MS = 2,
  /* between two tries to free a gRPC channel: gRPC does not tell when an attempt to connect ends */
  EL_FREE_EVERY_MS = 20,
  /* How long a transaction waits after its deadline for the end of its call: net/call.c ends the
   * call at about that deadline, with an error that says more. And how long a stream waits for its
   * status after the end of its messages. */
  EL_GRACE_MS = 100,
  /* Between two looks whether it is known why etcd cannot be reached. A diagnosis takes at most
   * EL_DIAGNOSIS_MS. */
  EL_CONTACT_STEP_MS = 1000,
  /* between two tries of nginx's wake thread to accept a connection if no descriptor is free: it
   * would use a whole processor without a pause */
  EL_DESCRIPTOR_PAUSE_US = 2000,
  /* The time in which a garbage-collected client releases its locks and revokes its lease:
   * lua_close waits for it, too. */
  EL_COLLECTED_MS = 500
};

#endif
