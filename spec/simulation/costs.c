/* simulation costs: what a client may cost etcd. */
#include "costs.h"

#include <stdlib.h>
#include <string.h>

#include "world.h"

enum {
  CLIENTS_MAX = 1 << 12, /* of one history */
  /* renewals of a lease in one TTL, at most; on a slow network more */
  RENEWALS = 7,
  RENEWALS_SLOW = 11,
  REREAD_US = 10 * WORLD_S,
  WATCHES_MAX = 80, /* open at one time; a client keeps 64 that it may need */
  /* bytes of a request for four users, whose keys, names and values are short */
  WRITE_MAX = 1200,
  FEW = 10 /* of each kind, for the first requests of a client */
};

/* What one client had to do. */
typedef struct record {
  int64_t begun_us, waited_us;
  int n_names; /* of all acquisitions */
  int n_writes;
  int n_wakes; /* deletions of a key, for each user that waited for its lock */
  int n_repeated; /* keys that were put again as they were */
  bool is_known;
} record;

static struct {
  etcd *cluster;    /* NULL: nothing is checked */
  int64_t round_us; /* by when etcd answers */
  record clients[CLIENTS_MAX];
} costs;

void costs_begin(etcd *cluster, int64_t round_us) {
  memset(&costs, 0, sizeof costs);
  costs.cluster = cluster;
  costs.round_us = round_us;
}

static record *record_of(int client) {
  record *it = costs.clients + client;
  if (client >= CLIENTS_MAX) abort();
  if (!it->is_known) it->begun_us = world_now_us();
  it->is_known = true;
  return it;
}

void costs_on_join(const user *of) {
  record_of(of->in->process.client)->n_names += of->wish.n_names;
}

void costs_on_decided(const user *of) {
  record_of(of->in->process.client)->waited_us +=
      world_now_us() - of->joined_us;
}

void costs_on_write(const user *of) {
  record_of(of->in->process.client)->n_writes++;
}

/* Returns the slot number in |key|: a client numbers its keys of one lock. 0: it has none. */
static int slot_of(const etcd_key *key) {
  const char *at = memchr(key->key.data, '-', key->key.len);
  return at != NULL ? (int)strtol(at + 1, NULL, 16) : 0;
}

static void check(const program *of, const char *what, int64_t n,
                  int64_t most) {
  if (n > most) {
    world_violate("costs", "p%d: %d %s, expected at most %d", of->process.id,
                  (int)n, what, (int)most);
  }
}

void costs_look(void) {
  if (costs.cluster == NULL) return;
  for (const program *it = programs; it < programs + n_programs; it++) {
    check(it, "open watches", etcd_n_watches(costs.cluster, it->process.client),
          WATCHES_MAX);
  }
}

/* A program has at most one key of a lock for each user, and one more for each key that is being
 * deleted. */
static void check_slot(const etcd_key *key) {
  if (slot_of(key) > 2 * USERS_MAX) {
    world_violate("costs", "%.*s: the number of its slot is too high",
                  (int)key->key.len, key->key.data);
  }
}

static bool waits_for(const user *of, int name) {
  for (int i = 0; i < of->wish.n_names; i++) {
    if (of->state == USER_WAITS && of->wish.names[i] == name) return true;
  }
  return false;
}

/* A waiter reads its queue again when a key of it is gone, and once more if the read was stale. */
static void count_wakes(const etcd_key *gone) {
  int name = gone->key.data[1] - '0';
  for (const program *in = programs; in < programs + n_programs; in++) {
    for (const user *it = in->users; it < in->users + in->n_users; it++) {
      if (waits_for(it, name)) record_of(in->process.client)->n_wakes++;
    }
  }
}

void costs_on_change(const etcd_change *change) {
  const etcd_key *before = change->before, *after = change->after;
  if (costs.cluster == NULL) return;
  if (after == NULL) count_wakes(before);
  if (change->client < 0 || after == NULL) return;
  check_slot(after);
  if (before != NULL && before->lease == after->lease &&
      el_bytes_are_equal(before->value, after->value)) {
    record_of(change->client)->n_repeated++;
  }
}

static void check_requests(const program *of, const record *it,
                           const etcd_costs *sent) {
  int64_t n = it->n_names;
  int64_t ttl_us = of->ttl_ms * WORLD_MS;
  int64_t per_ttl = costs.round_us < ttl_us / 16 ? RENEWALS : RENEWALS_SLOW;
  int64_t renewals = (world_now_us() - it->begun_us) * per_ttl / ttl_us;
  /* a client looks for other clients when it takes a lingering lock again, and at each renewal */
  int64_t lingers = of->lingering > 0 ? n + renewals + FEW : 0;
  /* A wait costs a put and a delete, and one write more if it tries first, as most waits for a
   * permit do. */
  check(of, "writes", sent->n_writes,
        n * (programs_behave.kinds == KINDS_PERMIT ? 10 : 9) / 4 +
            it->n_writes + FEW);
  check(of, "reads", sent->n_reads,
        n + lingers + it->n_wakes * 3 / 2 + renewals +
            it->waited_us / REREAD_US + FEW);
  /* a grant may need a proof at once */
  check(of, "keepalives", sent->n_keepalives, n + renewals + FEW);
  check(of, "watches", sent->n_watches, n + lingers + it->n_wakes + FEW);
  check(of, "deletes in vain", sent->n_in_vain,
        (programs_behave.kinds == KINDS_READ_WRITE ? n : 0) + FEW);
}

void costs_on_closed(const program *of, int n_logins) {
  record *it = record_of(of->process.client);
  etcd_costs sent;
  if (costs.cluster == NULL) return;
  sent = etcd_costs_of(costs.cluster, of->process.client);
  check_requests(of, it, &sent);
  check(of, "calls about leases", sent.n_lease_calls, 2);
  check(of, "other calls", sent.n_others, n_logins);
  check(of, "bytes of a write", (int64_t)sent.largest_write, WRITE_MAX);
  check(of, "repeated writes", it->n_repeated, 0);
}
