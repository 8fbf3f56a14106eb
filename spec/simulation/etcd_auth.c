/* simulation etcd_auth: the users of the simulated etcd, and the tokens of its clients.
 *
 * An Authenticate costs its member a hash, which one processor computes after the hashes of earlier
 * Authenticates, even if the client has cancelled the call. Meanwhile the member answers late.
 * Then the token goes through raft, so all members know it. A simple token expires at each member
 * where it is not used, and a member that restarts forgets it. A JWT has the revision of the auth
 * store, and is invalid when that has changed (etcd: auth/store.go, auth/simple_token.go). */
#include "etcd_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  /* Go lets each ready goroutine run for so long, and an answer takes up to SLICES turns. */
  SLICE_US = 10 * WORLD_MS,
  SLICES = 4,
  TOKEN_SIZE = 48
};

struct auth_token {
  auth_token *next;
  char text[TOKEN_SIZE];
  int client;       /* that has asked for it */
  bool is_used;     /* a call has carried it */
  bool is_replaced; /* its client has asked for another, although it is valid */
  int64_t auth_rev; /* of a JWT */
  int64_t expires_us
      [ETCD_MEMBERS_MAX]; /* by member; 0: it does not know the token */
};

static const failure no_user = {STATUS_INVALID_ARGUMENT,
                                "etcdserver: user name is empty"};
static const failure bad_token = {STATUS_UNAUTHENTICATED,
                                  "etcdserver: invalid auth token"};
static const failure old_revision = {
    STATUS_INVALID_ARGUMENT, "etcdserver: revision of auth store is old"};

int64_t auth_hash_us(member *at) {
  int64_t now_us = world_now_us();
  if (at->hashes_until_us < now_us) at->hashes_until_us = now_us;
  at->hashes_until_us += at->cluster->options.hash_us;
  return at->hashes_until_us - now_us;
}

int64_t auth_busy_us(const member *at) {
  int64_t left_us = at->hashes_until_us - world_now_us();
  int64_t most_us;
  if (left_us <= 0) return 0;
  most_us =
      (left_us / at->cluster->options.hash_us + 1) * SLICES * (int64_t)SLICE_US;
  return world_random(0, most_us < left_us ? most_us : left_us);
}

const char *auth_assign(etcd *cluster, int client) {
  auth_token *it = el_alloc(sizeof *it);
  it->next = cluster->tokens;
  cluster->tokens = it;
  it->client = client;
  it->auth_rev = cluster->auth_rev;
  if (cluster->options.is_jwt) {
    snprintf(it->text, sizeof it->text, "jwt.%" PRId64 ".signature",
             cluster->n_tokens++);
  } else {
    snprintf(it->text, sizeof it->text, "letters%" PRId64 ".%" PRId64,
             cluster->n_tokens++, cluster->store.rev);
  }
  for (int i = 0; i < cluster->options.n_members; i++) {
    it->expires_us[i] = world_now_us() + cluster->options.token_us;
  }
  return it->text;
}

static auth_token *find(const etcd *cluster, const char *text) {
  for (auth_token *it = cluster->tokens; it != NULL; it = it->next) {
    if (strcmp(it->text, text) == 0) return it;
  }
  return NULL;
}

/* Returns why |it| is invalid at |at|; NULL: it is valid. */
static const failure *judge(const member *at, const auth_token *it) {
  if (at->cluster->options.is_jwt) {
    return it->auth_rev < at->cluster->auth_rev ? &old_revision : NULL;
  }
  return it->expires_us[at->index] <= world_now_us() ? &bad_token : NULL;
}

const failure *auth_check(member *at, const char *text) {
  const failure *why;
  auth_token *it;
  if (text == NULL) return &no_user;
  it = find(at->cluster, text);
  if (it == NULL) return &bad_token;
  why = judge(at, it);
  if (why != NULL) return why;
  it->is_used = true;
  it->expires_us[at->index] = world_now_us() + at->cluster->options.token_us;
  return NULL;
}

/* Tokens are listed from the youngest on. */
void auth_check_need(const member *at, int client) {
  auth_token *last = NULL;
  int n_replaced = 0;
  for (auth_token *it = at->cluster->tokens; it != NULL; it = it->next) {
    if (it->client != client) continue;
    if (last == NULL) last = it;
    n_replaced += it->is_replaced;
  }
  if (last == NULL || !last->is_used || judge(at, last) != NULL) return;
  last->is_replaced = true;
  if (n_replaced >= at->cluster->options.replaced_max) {
    world_violate("a token is replaced only if it is invalid",
                  "client %d: %d in vain", client, n_replaced + 1);
  }
}

void auth_forget(member *at) {
  for (auth_token *it = at->cluster->tokens; it != NULL; it = it->next) {
    it->expires_us[at->index] = 0;
  }
}

void etcd_add_user(etcd *cluster) {
  cluster->auth_rev++;
  auth_hash_us(&cluster->members[0]);
}

void auth_free(etcd *cluster) {
  auth_token *next;
  for (auth_token *it = cluster->tokens; it != NULL; it = next) {
    next = it->next;
    free(it);
  }
}
