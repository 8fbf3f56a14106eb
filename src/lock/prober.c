/* prober: proves that a lease lives. */
#include "lock/prober.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "rules/recipe.h"

typedef struct probe {
  el_request request; /* first */
  el_prober *prober;
  unsigned generation;
  el_keys keys; /* whose key */
  int64_t rev;  /* its create_revision */
} probe;

static const el_entry_action LOOK = {.kind = EL_ENTRY_SEND,
                                     .request = EL_REQUEST_LOOK};

/* The key that was probed, if it is still ours. */
static el_proof_key *find_probed(const probe *asked) {
  el_proof_key *key;
  TAILQ_FOREACH(key, &asked->prober->keys, link) {
    if (key->rev == asked->rev && el_keys_are_same(key->keys, &asked->keys)) {
      return key;
    }
  }
  return NULL;
}

static void conclude(const probe *asked, const el_txn_answer *answer) {
  el_session_event event = {.kind = EL_SESSION_PROBED,
                            .outcome =
                                el_outcome_of(&answer->err, answer->sent_ms),
                            .term = answer->term,
                            .rev = answer->rev};
  el_entry_event seen;
  el_proof_key *key;
  bool is_there;
  el_recipe_read(&asked->keys, &LOOK, answer, &seen);
  is_there =
      event.outcome.is_done && seen.mine.rev == asked->rev && !seen.partial;
  event.exists = is_there && seen.mine.lease == asked->keys.lease;
  key = event.outcome.is_done && !event.exists ? find_probed(asked) : NULL;
  if (key != NULL) {
    key->gone(key, is_there);
  }
  asked->prober->probed(asked->prober, &event, &answer->err);
}

static void on_answer(el_request *request, el_txn_answer *answer) {
  probe *asked = EL_CONTAINER_OF(request, probe, request);
  if (answer != NULL) {
    if (asked->generation == asked->prober->generation) {
      conclude(asked, answer);
    }
    el_txn_answer_free(answer);
  }
  el_keys_destroy(&asked->keys);
  free(asked);
}

static void send(el_prober *prober, const el_proof_key *key) {
  EL_UNCLEARED el_recipe recipe;
  probe *asked = el_alloc(sizeof *asked);
  asked->request.done = on_answer;
  asked->request.counted_as = offsetof(el_stats, probes);
  asked->prober = prober;
  asked->generation = prober->generation;
  asked->rev = key->rev;
  el_keys_copy(&asked->keys, key->keys);
  el_recipe_build(&recipe, &asked->keys, &LOOK, 0, (el_bytes){0});
  el_requests_send(prober->requests, &asked->request, &recipe.txn);
}

void el_prober_init(el_prober *prober) { TAILQ_INIT(&prober->keys); }

static bool is_listed(const el_proof_key *key) {
  return key->link.tqe_prev != NULL;
}

void el_prober_add(el_prober *prober, el_proof_key *key) {
  if (is_listed(key)) return;
  TAILQ_INSERT_TAIL(&prober->keys, key, link);
  prober->n_keys++;
}

void el_prober_remove(el_prober *prober, el_proof_key *key) {
  if (!is_listed(key)) return;
  TAILQ_REMOVE(&prober->keys, key, link);
  memset(&key->link, 0, sizeof key->link);
  prober->n_keys--;
}

/* The next probe reads the next key. */
void el_prober_send(el_prober *prober) {
  el_proof_key *key = TAILQ_FIRST(&prober->keys);
  el_session_event none = {.kind = EL_SESSION_PROBED,
                           .outcome.sent_ms = el_now_ms()};
  if (key == NULL) { /* let go a moment ago */
    prober->probed(prober, &none, NULL);
    return;
  }
  TAILQ_REMOVE(&prober->keys, key, link);
  TAILQ_INSERT_TAIL(&prober->keys, key, link);
  send(prober, key);
}

void el_prober_forget(el_prober *prober) { prober->generation++; }
