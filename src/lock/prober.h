/* prober: proves that a lease lives, by reading one of its keys through the quorum.
 */
#ifndef ETCDLOCK_LOCK_PROBER_H
#define ETCDLOCK_LOCK_PROBER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "lock/requests.h"
#include "rules/key.h"
#include "rules/session.h"

/* A key that is ours, or about to be: one of them is read. Embedded in whoever has
 * it. */
typedef struct el_proof_key el_proof_key;
struct el_proof_key {
  /* A probe did not find it, or |detached| from our lease. */
  void (*gone)(el_proof_key *key, bool detached);
  const el_keys *keys;
  int64_t rev;                    /* its create_revision */
  TAILQ_ENTRY(el_proof_key) link; /* all zero while it isn't listed */
};

/* Embedded in the session's driver. */
typedef struct el_prober el_prober;
struct el_prober {
  el_requests *requests;
  void (*probed)(el_prober *prober, const el_session_event *event,
                 const el_error *err);
  TAILQ_HEAD(, el_proof_key) keys;
  int n_keys;
  unsigned generation; /* tells answers about an earlier session apart */
};

/* |requests| and |probed| are set; that is told no error where nothing was read.
 * @thread io */
void el_prober_init(el_prober *prober);

/* Lists |key|; harmless if it is. @thread io */
void el_prober_add(el_prober *prober, el_proof_key *key);

/* Not any more; harmless if it isn't listed. @thread io */
void el_prober_remove(el_prober *prober, el_proof_key *key);

/* Reads a key; |probed| hears what comes of it, at once if there is none.
 * @thread io */
void el_prober_send(el_prober *prober);

/* What is out is of no use any more. @thread io */
void el_prober_forget(el_prober *prober);

#endif
