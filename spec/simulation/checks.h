/* simulation checks: what etcdlock promises, as far as its users and etcd can see it. That no
 * success is false is checked in each history. That no failure is false is checked in histories
 * without faults; for a loss, also in MOOD_MILD. */
#ifndef SIMULATION_CHECKS_H
#define SIMULATION_CHECKS_H

#include "etcd.h"
#include "etcd/txn.h"
#include "program.h"

/* What a history does to its programs. It decides which promises are checked. */
typedef enum mood {
  MOOD_CALM,  /* no faults */
  MOOD_DEAF,  /* as if a proxy held the events of all watches back */
  MOOD_MILD,  /* now and then one of three members fails or lags */
  MOOD_STOPS, /* programs are stopped, and may close their client then */
  MOOD_WILD
} mood;

enum {
  DATUM_MAX = 64,          /* bytes of a value that a user writes */
  CHECKS_MILD_LAG_MS = 500 /* by which a member may lag in MOOD_MILD */
};

/* What the checks must know of a history. */
typedef struct checks_options {
  etcd *cluster; /* of the history */
  mood mood;
  bool is_true;      /* etcd renews no lease that is gone */
  bool omits_leases; /* an answer may lack the lease of a key */
  bool
      has_peaceful_admin; /* an admin changes keys in a mood other than MOOD_WILD */
  int64_t login_us; /* how much longer a call may take because clients log in */
  int64_t
      token_us; /* for how long a token is valid that is not used; 0: no logins */
  int64_t round_us; /* within which etcd answers without faults */
} checks_options;

void checks_begin(const checks_options *options);
void checks_end(void);
int64_t checks_n_grants(void);

/* Called for each change of a key in etcd. */
void checks_on_change(const etcd_change *change);

/* The faults have ended, and no revoke of a lease was refused for good. */
void checks_on_peace(void);

/* An admin is about to change |key|. Until the client of the key must know of the change, promises
 * about its holds are not checked. */
void checks_on_sabotage(const etcd_key *key);

void checks_on_join(user *of);
void checks_on_decided(user *of, const el_error *err);
/* |of| is about to release, or sees that its hold is lost. */
void checks_on_release(user *of);
void checks_on_released(user *of, const el_error *err);
/* |of| is about to write by its hold. Returns the number of the write, and its key and value in
 * |key| and |value|; 0: there were too many. */
int checks_on_write(const user *of, char *key, char *value);
void checks_on_written(user *of, int number, const el_txn_answer *answer);
/* The call of |of| that began at |begun_us| with |timeout_ms| has ended. */
void checks_on_end_of_call(const user *of, int64_t begun_us,
                           int64_t timeout_ms);
/* |of| has waited for the end of its hold. |is_told|: the end came. */
void checks_on_waited(user *of, bool is_told);
/* The program has crashed, or begins to close its client. */
void checks_on_end(program *of);
/* The client of |of| has stopped. */
void checks_on_closed(program *of);

/* Checks, when all programs have ended and their leases are over, that nothing is left. */
void checks_nothing_left(void);

#endif
