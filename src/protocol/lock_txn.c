/* lock_txn: builds the etcd transactions of the lock protocol, and reads their answers. */
#include "protocol/lock_txn.h"

#include <assert.h>
#include <string.h>

/* ---- requests ---- */

/* All reads also ask for the values. etcd 3.7 omits the lease of a key if a range is read with
 * keys_only (etcd issue 22209), and without its lease a key cannot be told from user data. */

/* Each of the next four functions adds one operation or compare for each of our keys, and returns
 * the number of our keys. */

static size_t read_own(const el_keys *keys, el_op *ops) {
  size_t n = 0;
  for (; keys != NULL; keys = keys->next) {
    ops[n++] = (el_op){.kind = EL_OP_RANGE, .key = el_keys_own(keys)};
  }
  return n;
}

/* For a multi-lock of several names, |value| contains the value of the first key and the value of
 * the other keys: see el_lock_txn_build. */
static size_t put_own(const el_keys *keys, el_bytes value, el_op *ops) {
  el_bytes rest = value,
           first = keys->next != NULL ? el_list_pop(&rest) : value;
  size_t n = 0;
  for (; keys != NULL; keys = keys->next, n++) {
    ops[n] = (el_op){.kind = EL_OP_PUT,
                     .key = el_keys_own(keys),
                     .value = n == 0 ? first : rest,
                     .lease = keys->lease};
  }
  return n;
}

static size_t delete_own(const el_keys *keys, el_op *ops) {
  size_t n = 0;
  for (; keys != NULL; keys = keys->next) {
    ops[n++] = (el_op){.kind = EL_OP_DELETE, .key = el_keys_own(keys)};
  }
  return n;
}

static size_t compare_own(const el_keys *keys, int64_t rev,
                          el_compare *compares) {
  size_t n = 0;
  for (; keys != NULL; keys = keys->next) {
    compares[n++] = (el_compare){
        .test = EL_CREATE_REV_IS, .key = el_keys_own(keys), .rev = rev};
  }
  return n;
}

enum {
  /* How many more keys a waiter of a semaphore reads than a try. The waiter need not read again
   * before enough of the keys that it has read are gone (n_blockers in entry.h). */
  PERMITS_READ = 32,
  /* How many markers a reader reads. A writer that was downgraded still holds the lock, so at most
   * one marker is not user data. */
  MARKERS_READ = 16
};

/* Adds to |ops| one read for each range of keys that may conflict with |keys|. Each read returns
 * the youngest |limit| keys; the read of markers, the youngest MARKERS_READ. Sets |n_ops| to the
 * number of reads, and returns how many of these do not read markers. */
static size_t list_queue(el_lock_txn *to, const el_keys *keys, el_op *ops,
                         int64_t limit, size_t *n_ops) {
  EL_UNINITIALIZED el_key_range ranges[EL_CONFLICT_RANGES_MAX];
  bool has_markers = el_conflict_reads_markers(keys->mode);
  size_t n = el_conflict_ranges(keys, ranges, to->text);
  for (size_t i = 0; i < n; i++) {
    ops[i] = (el_op){.kind = EL_OP_RANGE,
                     .key = ranges[i].from,
                     .range_end = ranges[i].to,
                     .limit = has_markers && i == n - 1 ? MARKERS_READ : limit,
                     .sort = EL_SORT_YOUNGEST};
  }
  *n_ops = n;
  return has_markers ? n - 1 : n;
}

/* Tells whether the request of |what| puts our keys and lists the older ones. */
static bool is_put_with_list(const el_entry_request *what) {
  return what->kind == EL_REQUEST_ENQUEUE ||
         (what->kind == EL_REQUEST_TRY && what->bound_rev > 1);
}

/* Tells whether each list of |what| begins with our own key. Our key then shows that the server
 * omits neither keys nor leases in that list. (A reader's own key is in none of its ranges.) */
static bool lists_own(const el_keys *keys, const el_entry_request *what) {
  return keys->mode != EL_MODE_READ && what->walk.below == 0 &&
         (what->kind == EL_REQUEST_READ || is_put_with_list(what));
}

/* Returns how many keys of each range the request of |what| lists. */
static uint32_t limit_of(const el_keys *keys, const el_entry_request *what) {
  uint32_t limit = 1 + keys->permits;
  if (what->walk.limit != 0) {
    limit = what->walk.limit;
  } else if (what->kind != EL_REQUEST_TRY && keys->mode == EL_MODE_PERMIT) {
    limit += PERMITS_READ;
  }
  return lists_own(keys, what) ? limit + 1 : limit;
}

/* Makes the |n| reads of |ops| list only keys up to the create_revision |most|; 0: all keys. */
static void list_up_to(el_op *ops, size_t n, int64_t most) {
  for (size_t i = 0; i < n; i++) {
    ops[i].max_create_rev = most;
  }
}

/* One transaction puts our key if the key does not exist, as in Go's concurrency/mutex.go, and
 * reads the older keys. If our key exists, the else branch only reads it, so a repeat is harmless.
 * Unless |walk| has a limit, each read returns the two youngest keys of its range: our key and its
 * predecessor. For a reader, whose key is in no range, each read except the one of markers returns
 * one key; for a semaphore, whose keys are counted, the read returns more. */
static void build_enqueue(el_lock_txn *to, const el_keys *keys,
                          const el_entry_request *what, el_bytes value) {
  size_t n_own = put_own(keys, value, to->then), n;
  compare_own(keys, 0, to->compares);
  list_queue(to, keys, to->then + n_own, limit_of(keys, what), &n);
  read_own(keys, to->otherwise);
  to->txn =
      (el_txn){to->compares, n_own, to->then, n_own + n, to->otherwise, n_own};
}

/* A compare on a range must hold for all keys of the range, and an empty range compares as revision
 * 0 (apply.go applyCompare). So with |bound_rev| 1 the put happens only if all ranges except the
 * one of markers are empty. With a larger |bound_rev| it happens only if the keys in these ranges
 * have lower create_revisions, and the answer lists them, as the answer to an enqueue does. A try
 * that fails writes nothing. The repeat of a try that succeeded also writes nothing, because it
 * finds our own key. */
static void build_try(el_lock_txn *to, const el_keys *keys,
                      const el_entry_request *what, el_bytes value) {
  int64_t below = what->walk.below;
  uint32_t limit = limit_of(keys, what);
  size_t n_own = put_own(keys, value, to->then), n, n_queued, n_then = n_own;
  compare_own(keys, 0, to->compares);
  read_own(keys, to->otherwise);
  n_queued = list_queue(to, keys, to->otherwise + n_own, limit, &n);
  list_up_to(to->otherwise + n_own, n_queued, below != 0 ? below - 1 : 0);
  if (is_put_with_list(what)) {
    memcpy(to->then + n_own, to->otherwise + n_own, n * sizeof *to->then);
    n_then += n;
  }
  for (size_t i = n_own; i < n_own + n_queued; i++) {
    to->compares[i] = (el_compare){.test = EL_CREATE_REV_BELOW,
                                   .key = to->otherwise[i].key,
                                   .range_end = to->otherwise[i].range_end,
                                   .rev = what->bound_rev};
  }
  to->txn = (el_txn){to->compares, n_own + n_queued, to->then,
                     n_then,       to->otherwise,    n_own + n};
}

/* Tells whether the read of |what| also asks for the value of the holder's key. A multi-lock with
 * EL_MULTI_MAX names never does, because its read already fills |then| of el_lock_txn. */
static bool asks_for_holder(const el_keys *keys, const el_entry_request *what) {
  return what->reads_holder && el_keys_count(keys) < EL_MULTI_MAX;
}

/* Returns a read of the oldest key in the queue of the first key of |keys|. Except for a semaphore,
 * the mode of that key does not matter: if a reader waits for a writer that waits for an older
 * reader, the older reader is the holder. Only one key is read, because the values of other
 * programs' keys may be long. */
static el_op read_holder(el_lock_txn *to, const el_keys *keys, int64_t rev) {
  el_key_range range = el_conflict_holder_range(keys, to->holder_text);
  return (el_op){.kind = EL_OP_RANGE,
                 .key = range.from,
                 .range_end = range.to,
                 .sort = EL_SORT_OLDEST,
                 .limit = 1,
                 .max_create_rev = rev - 1};
}

static void build_read(el_lock_txn *to, const el_keys *keys,
                       const el_entry_request *what, int64_t rev) {
  size_t n_own = read_own(keys, to->then), n = 0, n_queued = 0;
  if (rev > 1 && !what->is_own_only) {
    int64_t below = what->walk.below;
    n_queued = list_queue(to, keys, to->then + n_own, limit_of(keys, what), &n);
    list_up_to(to->then + n_own, n_queued,
               below != 0              ? below - 1
               : lists_own(keys, what) ? rev
                                       : rev - 1);
  }
  for (size_t i = 0; i < n_own + n; i++) {
    to->then[i].serializable = what->is_serializable;
  }
  to->txn = (el_txn){.then = to->then, .n_then = n_own + n};
  if (n > 0 && asks_for_holder(keys, what)) {
    to->then[to->txn.n_then++] =
        read_holder(to, el_keys_at(keys, what->holder_index), rev);
  }
}

/* How many keys a contention query reads from each range. If all of them are younger than our key
 * and none waits for it, for example because they are user data, a waiter may still follow. */
enum { YOUNGEST_READ = 10 };

void el_lock_txn_build_contention(el_lock_txn *to, const el_keys *keys) {
  size_t n_own = read_own(keys, to->then), n, n_queued;
  n_queued = list_queue(to, keys, to->then + n_own, YOUNGEST_READ, &n);
  to->txn = (el_txn){.then = to->then, .n_then = n_own + n_queued};
}

/* Fills |ranges| with the marker keys that our key with create_revision |rev| may have, and returns
 * their number. The ranges point to |text|. */
static size_t list_markers(const el_keys *keys, int64_t rev,
                           el_key_range *ranges, char *text) {
  el_queue_key markers[] = {el_marker_write_order(rev),
                            el_marker_downgraded(rev)};
  if (!el_mode_has_markers(keys->mode)) return 0;
  for (size_t i = 0; i < 2; i++) {
    size_t len = el_key_write(text, el_keys_name(keys), &markers[i]);
    ranges[i] = (el_key_range){.from = {text, len}};
    text += len;
  }
  return 2;
}

/* Fills |compares|, which hold if all our keys have the create_revision |guard|; 0: if they are
 * attached to our lease, whatever create_revision they have. Returns the number of our keys. */
static size_t compare_guard(const el_keys *keys, int64_t guard,
                            el_compare *compares) {
  size_t n = 0;
  if (guard != 0) return compare_own(keys, guard, compares);
  for (; keys != NULL; keys = keys->next) {
    compares[n++] = (el_compare){
        .test = EL_LEASE_IS, .key = el_keys_own(keys), .rev = keys->lease};
  }
  return n;
}

/* Deletes our keys and their markers if our keys meet |guard|. If one does not, the else branch
 * deletes the markers and all keys of a multi-lock, because no later request would. These cannot
 * belong to another hold: a marker's name contains the create_revision, and the slot of a
 * multi-lock is not used again while this request may be applied later (slot_set in
 * lock/local_queue.c). The transaction reads our keys before it deletes them: if one was not
 * attached to our lease, the hold had been lost. */
static void build_delete(el_lock_txn *to, const el_keys *keys, int64_t guard) {
  EL_UNINITIALIZED el_key_range markers[EL_CONFLICT_RANGES_MAX];
  size_t n_markers =
      guard != 0 ? list_markers(keys, guard, markers, to->text) : 0;
  size_t n_own = read_own(keys, to->then), n_then = n_own, n = 0;
  n_then += delete_own(keys, to->then + n_own);
  compare_guard(keys, guard, to->compares);
  if (n_own > 1) {
    n = read_own(keys, to->otherwise);
    n += delete_own(keys, to->otherwise + n);
  }
  for (size_t i = 0; i < n_markers; i++) {
    to->otherwise[n] = (el_op){.kind = EL_OP_DELETE,
                               .key = markers[i].from,
                               .range_end = markers[i].to};
    to->then[n_then++] = to->otherwise[n++];
  }
  to->txn = (el_txn){to->compares, n_own, to->then, n_then, to->otherwise, n};
}

void el_lock_txn_build(el_lock_txn *to, const el_keys *keys,
                       const el_entry_request *what, int64_t rev,
                       el_bytes value) {
  switch (what->kind) {
    case EL_REQUEST_ENQUEUE:
      build_enqueue(to, keys, what, value);
      return;
    case EL_REQUEST_TRY:
      build_try(to, keys, what, value);
      return;
    case EL_REQUEST_READ:
      build_read(to, keys, what, rev);
      return;
    case EL_REQUEST_DELETE:
      build_delete(to, keys, what->guard_rev);
      return;
  }
}

/* ---- answers ---- */

/* A version of etcd or a proxy may omit a field of an answer. (etcd 3.7 omits leases in some
 * answers, see above.) The table shows what follows. No omitted field makes a lock free that
 * another client holds.
 *
 * field                 read for                     if it is missing
 * --------------------  ---------------------------  ---------------------------------------------
 * header, revision      the token, order of answers  the answer cannot be read (etcd/kv.c)
 * cluster_id            another cluster's answer     the answer cannot be read
 * member_id, raft_term  a proof of a lease           the answer cannot be read
 * succeeded             which branch was run         the results do not fit (etcd/kv.c): the answer
 *                                                    cannot be read. Same results in both branches:
 *                                                    the release of a multi-lock reports a loss, a
 *                                                    guarded read of one key ends its hold as lost
 * a response            its operation                the results do not fit
 * kvs: key              which key it is              the answer cannot be read
 * kvs: create_revision  which key is older           the answer cannot be read
 * kvs: mod_revision     whether our key was changed  if our key also lacks its lease, the hold is
 *                                                    lost (also if we have changed the key)
 * kvs: our lease        whether our key is an entry  a wait, a try and the proof of a hold fail
 *                                                    with "protocol"; a lingering lock is released;
 *                                                    a release succeeds. A key with our name, but
 *                                                    another create_revision or value, is user data
 * kvs: another lease    whether a key is an entry    the key counts as user data only if its list
 *                                                    shows our own key with its lease. For a reader
 *                                                    and in lists that begin below our key (go_on),
 *                                                    another read of the same answer shows our key.
 *                                                    A lingering lock does not see that waiter
 * kvs: value            the label of the holder      a message has no label
 * more                  the end of a list            the list ends if it is shorter than its limit
 * count                 keys missing in a list       a list without our own key is not checked
 * deleted               the result of a call         the call returns that no key existed
 * watch event: type     whether a key was deleted    read as a put without a lease
 * watch event: lease    whether a key was detached   our hold is lost; a waiter reads the queue
 * watch event: revision events before our key        the event is ignored: the next proof of a hold
 *                                                    finds a loss, the next periodic read of a
 *                                                    waiter finds the change
 * watch header          missed events                the watch starts again; if only the revision
 *                                                    is missing, the next periodic read of a waiter
 *                                                    or proof of a hold finds the change
 * keepalive: TTL        whether the lease is alive   the lease has ended
 * keepalive: member_id, a proof of the lease         no proof
 *   raft_term
 *
 * If a list of older keys lacks keys, but not our own, only |count| shows it, and only after a put.
 */

static el_queue_key own_of(const el_op_result *result) {
  if (result->n_kvs == 0) return (el_queue_key){0};
  return (el_queue_key){.rev = result->kvs[0].create_rev,
                        .lease = result->kvs[0].lease};
}

/* Tells whether |own|, a key that we have put, has no lease although it was not changed since. Then
 * the server does not show leases. */
static bool kv_lacks_lease(const el_kv *own) {
  return own->lease == 0 && own->mod_rev == own->create_rev;
}

/* Tells whether |own|, the read of one of our keys, shows the key that we have put with
 * create_revision |rev| without its lease. A key with another create_revision is not ours: another
 * client has put it after ours was deleted. */
static bool lacks_lease(const el_op_result *own, int64_t rev) {
  return own->n_kvs > 0 && own->kvs[0].create_rev == rev &&
         kv_lacks_lease(own->kvs);
}

/* Tells whether |own|, the read of one of our keys with create_revision |rev|, shows that another
 * client has put the key without our lease. */
static bool is_off_lease(const el_keys *keys, const el_op_result *own,
                         int64_t rev) {
  return own->n_kvs > 0 && own->kvs[0].lease != keys->lease &&
         !lacks_lease(own, rev);
}

/* Reads the results about our own keys, with which |answer| begins, and returns the number of our
 * keys. If some keys of a multi-lock exist, but not all with the same create_revision, sets
 * |is_partial|. If one of them is not attached to our lease, |own| describes that key. */
static size_t parse_own(const el_keys *keys, const el_txn_answer *answer,
                        el_entry_answer *seen) {
  size_t n = el_keys_count(keys);
  seen->own = own_of(&answer->results[0]);
  for (size_t i = 1; i < n; i++) {
    el_queue_key other = own_of(&answer->results[i]);
    if (other.rev != seen->own.rev) seen->is_partial = true;
    if (other.rev == 0) continue;
    if (seen->own.rev == 0 || other.lease != keys->lease) seen->own = other;
  }
  return n;
}

enum {
  /* The number of keys of each range in the second part of a walk. So many values of etcd's default
   * limit, 1.5 MiB, fit into a message of 32 MiB. */
  WALK_SECOND = 16,
  /* Parts grow, because etcd sorts all keys of the range for each part. The next part has at most
   * WALK_GROWTH times as many keys, and at most about WALK_BYTES bytes. */
  WALK_GROWTH = 16,
  WALK_BYTES = 4 * 1024 * 1024,
  /* A part that was too large is read again with 1/WALK_SHRINK of its keys. */
  WALK_SHRINK = 16
};

/* Returns the limit of the part that follows one of |n| keys and |bytes| bytes. */
static uint32_t next_limit(size_t n, size_t bytes) {
  size_t most = n * WALK_GROWTH, fit = WALK_BYTES / (bytes / n + 1);
  if (fit < most) most = fit;
  if (most > UINT32_MAX) most = UINT32_MAX;
  return most > 0 ? (uint32_t)most : 1;
}

static size_t bytes_of(const el_op_result *list) {
  size_t bytes = 0;
  for (size_t i = 0; i < list->n_kvs; i++) {
    bytes += list->kvs[i].key.len + list->kvs[i].value.len;
  }
  return bytes;
}

/* Tells whether more keys may follow |list|, which was read with |limit|. The field |more| alone
 * does not tell: a server may omit it. */
static bool may_go_on(const el_op_result *list, uint32_t limit) {
  bool is_all = list->count > 0 && list->count <= (int64_t)list->n_kvs;
  return list->n_kvs > 0 && !is_all && (list->more || list->n_kvs >= limit);
}

/* What the lists of keys in an answer show about older keys that block ours. */
typedef struct blockers {
  el_queue_key youngest;
  /* a listed key has the form of an entry that blocks ours, but no lease */
  bool has_keys_without_lease;
  /* a list ended at its limit, and shows no key that blocks ours */
  bool is_truncated;
  /* with |is_truncated|: the keys that were not read have lower create_revisions than this */
  int64_t below;
  /* semaphore: the number of older keys up to the end of the list */
  uint32_t n_ahead;
} blockers;

/* Records that keys older than the last one of |list| were not read. If several lists ended at
 * their limits, the next part begins at the youngest of these ends. */
static void note_end(blockers *found, const el_op_result *list) {
  int64_t end = list->kvs[list->n_kvs - 1].create_rev;
  found->is_truncated = true;
  if (end > found->below) found->below = end;
}

/* Counts the older keys of a semaphore; |n_ahead| were counted before. (Each key takes one permit,
 * whatever number of permits it contains.) If our key must wait, |youngest| has lease 0, which
 * makes the entry watch all permits instead of one key (watch_predecessor in lock/entry.c). */
static blockers find_permit_blockers(const el_keys *keys,
                                     const el_op_result *list, int64_t rev,
                                     uint32_t limit, uint32_t n_ahead) {
  el_queue_key blocker;
  blockers found = {.n_ahead = n_ahead};
  for (size_t i = 0; i < list->n_kvs; i++) {
    if (el_conflict_is_blocker(keys, &list->kvs[i], NULL, &blocker)) {
      if (rev == 0 || blocker.rev < rev) found.n_ahead++;
    } else if (el_conflict_lacks_lease(keys, &list->kvs[i])) {
      found.has_keys_without_lease = true;
    }
  }
  if (found.n_ahead >= keys->permits) {
    found.youngest = (el_queue_key){.rev = 1, .mode = EL_MODE_PERMIT};
  } else if (may_go_on(list, limit)) {
    note_end(&found, list);
  }
  return found;
}

/* Reads the lists of |answer|, the answer to |what|, but skips keys whose create_revision is |rev|
 * or above. |rev| 0: the lists contain older keys only. The lists follow the results about our own
 * keys. */
static blockers find_blockers(const el_keys *keys, const el_entry_request *what,
                              const el_txn_answer *answer, int64_t rev) {
  bool has_markers = el_conflict_reads_markers(keys->mode);
  size_t n_own = el_keys_count(keys);
  size_t n = answer->n_results - n_own - (has_markers ? 1 : 0);
  const el_op_result *lists = &answer->results[n_own];
  const el_op_result *markers = has_markers ? &lists[n] : NULL;
  uint32_t limit = limit_of(keys, what);
  blockers found = {0};
  if (keys->mode == EL_MODE_PERMIT) {
    return find_permit_blockers(keys, lists, rev, limit, what->walk.n_ahead);
  }
  for (size_t i = 0; i < n; i++) {
    size_t at = 0;
    el_queue_key blocker = {0};
    for (; at < lists[i].n_kvs; at++) {
      const el_kv *kv = &lists[i].kvs[at];
      if (!el_conflict_is_blocker(keys, kv, markers, &blocker)) {
        if (el_conflict_lacks_lease(keys, kv)) {
          found.has_keys_without_lease = true;
        }
      } else if (rev == 0 || blocker.rev < rev) {
        break;
      }
    }
    if (at < lists[i].n_kvs && blocker.rev > found.youngest.rev) {
      found.youngest = blocker;
      if (n_own > 1) found.youngest.name_index = (uint8_t)i;
    } else if (at == lists[i].n_kvs && may_go_on(&lists[i], limit)) {
      note_end(&found, &lists[i]);
    }
    if (n_own > 1) keys = keys->next; /* there is one list for each name */
  }
  return found;
}

/* Sets |walk|, the part that |answer| lists, to the next part. If the keys are small, that is a
 * larger part that begins at our key again, so that its list, too, shows our key. */
static void go_on(el_walk *walk, const el_txn_answer *answer,
                  const blockers *found) {
  size_t bytes = 0, n = 0;
  for (size_t i = 0; i < answer->n_results; i++) {
    bytes += bytes_of(&answer->results[i]);
    if (answer->results[i].n_kvs > n) n = answer->results[i].n_kvs;
  }
  walk->limit = walk->limit == 0 ? WALK_SECOND : next_limit(n, bytes);
  if (walk->below != 0 || walk->is_shrunk || bytes > WALK_BYTES / WALK_GROWTH) {
    walk->below = found->below;
    walk->n_ahead = found->n_ahead;
  }
}

/* Reads the older keys in |answer|, the answer to |what|. |rev|: as in find_blockers. Returns
 * false if the lists do not show our own key and no key blocks ours, but a key without a lease
 * would if it were an entry. */
static bool parse_blockers(const el_keys *keys, const el_entry_request *what,
                           const el_txn_answer *answer, int64_t rev,
                           el_entry_answer *seen) {
  blockers found = find_blockers(keys, what, answer, rev);
  seen->predecessor = found.youngest;
  if (seen->walk.rev == 0) seen->walk.rev = answer->rev - answer->is_batched;
  if (keys->mode == EL_MODE_PERMIT && found.n_ahead >= keys->permits) {
    seen->n_blockers = found.n_ahead - keys->permits + 1;
  }
  if (found.youngest.rev != 0) return true;
  seen->is_truncated = found.is_truncated;
  if (found.is_truncated) go_on(&seen->walk, answer, &found);
  return lists_own(keys, what) || !found.has_keys_without_lease;
}

/* Reads the answer to a request that has put our key, and lists the older keys. */
static void parse_put(const el_keys *keys, const el_entry_request *what,
                      const el_txn_answer *answer, el_entry_answer *seen) {
  seen->is_put = true;
  seen->own = (el_queue_key){.rev = answer->rev, .lease = keys->lease};
  if (parse_blockers(keys, what, answer, answer->rev, seen)) return;
  seen->walk = (el_walk){0}; /* the next request also reads our own key */
  seen->is_truncated = true;
}

/* Reads the results about our own keys in the answer to an enqueue or a try that has put nothing.
 */
static void parse_found(const el_keys *keys, const el_txn_answer *answer,
                        el_entry_answer *seen) {
  parse_own(keys, answer, seen);
  seen->is_name_taken = seen->own.rev != 0 && seen->own.lease != keys->lease;
}

static void parse_enqueue(const el_keys *keys, const el_entry_request *what,
                          const el_txn_answer *answer, el_entry_answer *seen) {
  if (answer->succeeded) {
    parse_put(keys, what, answer, seen);
  } else {
    parse_found(keys, answer, seen);
    seen->walk = (el_walk){0};
    seen->is_truncated = true;
  }
}

static void parse_try(const el_keys *keys, const el_entry_request *what,
                      const el_txn_answer *answer, el_entry_answer *seen) {
  if (answer->succeeded && is_put_with_list(what)) {
    parse_put(keys, what, answer, seen);
    return;
  }
  if (answer->succeeded) {
    seen->own = (el_queue_key){.rev = answer->rev, .lease = keys->lease};
    return;
  }
  parse_found(keys, answer, seen);
  parse_blockers(keys, what, answer, seen->own.rev, seen);
  seen->is_locked = seen->predecessor.rev != 0;
}

/* Returns |answer| without the result of the read that build_read adds for |reads_holder|. */
static el_txn_answer without_holder(const el_keys *keys,
                                    const el_entry_request *what,
                                    const el_txn_answer *answer) {
  el_txn_answer rest = *answer;
  rest.n_results -= asks_for_holder(keys, what);
  return rest;
}

el_bytes el_lock_txn_holder_value(const el_keys *keys,
                                  const el_entry_request *what,
                                  const el_txn_answer *answer) {
  const el_op_result *oldest;
  if (!asks_for_holder(keys, what) ||
      answer->n_results <= el_keys_count(keys)) {
    return (el_bytes){0};
  }
  oldest = &answer->results[answer->n_results - 1];
  keys = el_keys_at(keys, what->holder_index);
  return oldest->n_kvs > 0 && el_conflict_is_holder(keys, oldest->kvs)
             ? oldest->kvs[0].value
             : (el_bytes){0};
}

bool el_lock_txn_other_permits(const el_keys *keys,
                               const el_entry_request *what,
                               const el_txn_answer *answer, uint16_t *permits,
                               el_bytes *label) {
  const el_op_result *list;
  if (keys->mode != EL_MODE_PERMIT || what->kind == EL_REQUEST_DELETE ||
      answer->n_results <= el_keys_count(keys)) {
    return false;
  }
  list = &answer->results[el_keys_count(keys)];
  for (size_t i = 0; i < list->n_kvs; i++) {
    el_queue_key other;
    if (el_conflict_is_blocker(keys, &list->kvs[i], NULL, &other) &&
        other.permits != keys->permits) {
      *permits = other.permits;
      *label = list->kvs[i].value;
      return true;
    }
  }
  return false;
}

static void parse_read(const el_keys *keys, const el_entry_request *what,
                       const el_txn_answer *answer, el_entry_answer *seen) {
  el_txn_answer lists;
  seen->is_serializable = what->is_serializable;
  if (answer->n_results == parse_own(keys, answer, seen)) return;
  lists = without_holder(keys, what, answer);
  parse_blockers(keys, what, &lists, lists_own(keys, what) ? seen->own.rev : 0,
                 seen);
}

/* Sets |is_partial| if the hold had been lost before our delete: one of our keys was not attached
 * to our lease, or another client has deleted some of our keys, but not all. (This client deletes
 * all of them in one transaction.) Only keys with the create_revision |guard| count: a key with
 * another one was put by an enqueue that was applied late. */
static void parse_delete(const el_keys *keys, int64_t guard,
                         const el_txn_answer *answer, el_entry_answer *seen) {
  size_t n_own = el_keys_count(keys);
  seen->is_deleted = answer->succeeded;
  for (size_t i = 0; answer->succeeded && i < n_own; i++) {
    if (is_off_lease(keys, &answer->results[i], guard)) {
      seen->is_partial = true;
    }
  }
  for (size_t i = 0; n_own > 1 && !answer->succeeded && i < n_own; i++) {
    if (own_of(&answer->results[i]).rev == guard) seen->is_partial = true;
  }
}

/* Tells whether a key younger than |rev| waits for |keys|. |youngest| is the list of the youngest
 * keys. If the list ended at its limit before a key of |rev| or older, a waiter may follow, and the
 * result is true. */
static bool has_waiter(const el_keys *keys, int64_t rev,
                       const el_op_result *youngest) {
  for (size_t i = 0; i < youngest->n_kvs; i++) {
    const el_kv *kv = &youngest->kvs[i];
    if (kv->create_rev <= rev) return false;
    if (el_conflict_is_waiter(keys, kv->key, kv->lease)) return true;
  }
  return may_go_on(youngest, YOUNGEST_READ);
}

el_contention el_lock_txn_read_contention(const el_keys *keys, int64_t rev,
                                          const el_txn_answer *answer,
                                          bool *is_detached) {
  size_t n_own = el_keys_count(keys);
  bool is_gone = false;
  *is_detached = false;
  if (answer->err.code != EL_OK) return EL_CONTENTION_UNKNOWN;
  for (size_t i = 0; i < n_own; i++) {
    if (lacks_lease(&answer->results[i], rev)) return EL_CONTENTION_WAITERS;
    is_gone = is_gone || own_of(&answer->results[i]).rev != rev;
    *is_detached = *is_detached || is_off_lease(keys, &answer->results[i], rev);
  }
  *is_detached = *is_detached && !is_gone;
  if (is_gone || *is_detached) return EL_CONTENTION_KEY_LOST;
  for (size_t i = n_own; i < answer->n_results; i++) {
    if (has_waiter(keys, rev, &answer->results[i])) {
      return EL_CONTENTION_WAITERS;
    }
    if (n_own > 1) keys = keys->next; /* there is one list for each name */
  }
  return EL_CONTENTION_NONE;
}

/* Tells whether |list| lacks the first key of |keys|, which has the create_revision |rev|, or shows
 * it without its lease. */
static bool hides_own(const el_keys *keys, const el_op_result *list,
                      int64_t rev) {
  for (size_t i = 0; i < list->n_kvs && list->kvs[i].create_rev >= rev; i++) {
    if (el_bytes_are_equal(list->kvs[i].key, el_keys_own(keys))) {
      return kv_lacks_lease(&list->kvs[i]);
    }
  }
  return true;
}

/* Tells whether a list of |answer|, to a request that has put our keys, lacks keys. (In a read,
 * |count| cannot show this: it includes the younger keys that max_create_rev leaves out.) */
static bool lacks_keys(const el_keys *keys, const el_entry_request *what,
                       const el_txn_answer *answer) {
  uint32_t limit = limit_of(keys, what);
  for (size_t i = el_keys_count(keys); i < answer->n_results; i++) {
    const el_op_result *list = &answer->results[i];
    if (list->n_kvs < limit && list->count > (int64_t)list->n_kvs) return true;
  }
  return false;
}

/* Tells whether |answer|, to an enqueue or a try that has put nothing, shows a key without its
 * lease that we have put ourselves. A key with a value that is not ours is user data. */
static bool omits_found(const el_keys *keys, const el_txn_answer *answer,
                        el_bytes value) {
  EL_UNINITIALIZED el_op puts[EL_MULTI_MAX];
  size_t n = put_own(keys, value, puts);
  for (size_t i = 0; i < n; i++) {
    const el_op_result *own = &answer->results[i];
    if (own->n_kvs > 0 && kv_lacks_lease(own->kvs) &&
        el_bytes_are_equal(own->kvs[0].value, puts[i].value)) {
      return true;
    }
  }
  return false;
}

/* Tells whether |answer|, to a read of our keys with create_revision |rev|, omits leases or keys.
 * |rev| 0: it is not known. */
static bool omits_read(const el_keys *keys, const el_entry_request *what,
                       const el_txn_answer *answer, int64_t rev) {
  size_t n_own = el_keys_count(keys);
  if (rev == 0) return false; /* a key without a lease may be user data */
  for (size_t i = 0; i < n_own; i++) {
    if (lacks_lease(&answer->results[i], rev)) return true;
  }
  if (!lists_own(keys, what)) return false;
  for (size_t i = 0; i < n_own && n_own + i < answer->n_results; i++) {
    /* a key that was deleted, or put again by another client, need not be listed */
    bool is_ours = own_of(&answer->results[i]).rev == rev;
    if (is_ours && hides_own(keys, &answer->results[n_own + i], rev)) {
      return true;
    }
    keys = keys->next;
  }
  return false;
}

/* Tells whether |answer|, to a request that has put our keys, omits leases or keys. */
static bool omits_put(const el_keys *keys, const el_entry_request *what,
                      const el_txn_answer *answer) {
  size_t n_own = el_keys_count(keys);
  if (!is_put_with_list(what)) return false;
  if (lacks_keys(keys, what, answer)) return true;
  if (!lists_own(keys, what)) return false;
  for (size_t i = 0; i < n_own && n_own + i < answer->n_results; i++) {
    if (hides_own(keys, &answer->results[n_own + i], answer->rev)) return true;
    keys = keys->next;
  }
  return false;
}

/* Tells whether |answer| omits leases or keys. |rev| and |value| are those of the request. An
 * answer to a delete or an audit is not checked, because a release must succeed. */
static bool omits(const el_keys *keys, const el_entry_request *what,
                  int64_t rev, el_bytes value, const el_txn_answer *answer) {
  switch (what->kind) {
    case EL_REQUEST_TRY:
    case EL_REQUEST_ENQUEUE:
      return answer->succeeded ? omits_put(keys, what, answer)
                               : omits_found(keys, answer, value);
    case EL_REQUEST_READ:
      return !what->is_audit && omits_read(keys, what, answer, rev);
    default:
      return false;
  }
}

void el_lock_txn_read(const el_keys *keys, const el_entry_request *what,
                      int64_t rev, el_bytes value, el_txn_answer *answer,
                      el_entry_answer *seen) {
  if (answer->err.code == EL_OK && omits(keys, what, rev, value, answer)) {
    el_error_set(&answer->err, EL_PROTOCOL,
                 "etcd omits keys or leases in its answer; update etcdlock, or "
                 "connect without a proxy");
    answer->err.is_definite = false; /* our key may exist */
  }
  *seen =
      (el_entry_answer){.outcome = el_outcome_of(&answer->err, answer->sent_ms),
                        .member = answer->member_id,
                        .term = answer->term,
                        .rev = answer->rev,
                        .is_batched = answer->is_batched,
                        .walk = what->walk};
  if (!seen->outcome.is_done) {
    uint32_t limit = limit_of(keys, what) - lists_own(keys, what);
    seen->is_too_large = answer->err.is_too_large && limit > 1 &&
                         what->kind != EL_REQUEST_DELETE;
    seen->walk.limit = (limit + WALK_SHRINK - 1) / WALK_SHRINK;
    seen->walk.is_shrunk = true;
    return;
  }
  switch (what->kind) {
    case EL_REQUEST_ENQUEUE:
      parse_enqueue(keys, what, answer, seen);
      return;
    case EL_REQUEST_TRY:
      parse_try(keys, what, answer, seen);
      return;
    case EL_REQUEST_READ:
      parse_read(keys, what, answer, seen);
      return;
    case EL_REQUEST_DELETE:
      parse_delete(keys, what->guard_rev, answer, seen);
      return;
  }
}

/* ---- transactions of a holder ---- */

/* Writes |marker| of the lock of |guard| to |text| (EL_KEY_SIZE bytes). */
static el_bytes write_marker(const el_guard *guard, const el_queue_key *marker,
                             char *text) {
  return (el_bytes){text,
                    el_key_write(text, el_keys_name(guard->keys), marker)};
}

/* Returns the order key: see write_order.h. */
static el_bytes order_key(const el_guard *guard, char *text) {
  el_queue_key marker = el_marker_write_order(guard->rev);
  assert(guard->keys->mode != EL_MODE_READ); /* a read hold writes nothing */
  return el_mode_has_markers(guard->keys->mode)
             ? write_marker(guard, &marker, text)
             : el_keys_own(guard->keys);
}

/* All our keys must have the create_revision of the hold and must be attached to our lease, because
 * other clients do not wait for a detached key. If one of these guards fails, the else branch reads
 * our keys, so that the answer shows which one. */
static void build_guarded(el_lock_txn *to, const el_guard *guard,
                          const el_op *ops, size_t n_ops) {
  size_t n = compare_own(guard->keys, guard->rev, to->compares);
  for (const el_keys *own = guard->keys; own != NULL; own = own->next) {
    to->compares[n++] = (el_compare){
        .test = EL_LEASE_IS, .key = el_keys_own(own), .rev = own->lease};
  }
  to->txn = (el_txn){to->compares, n, ops, n_ops, to->otherwise, 0};
  to->txn.n_otherwise = read_own(guard->keys, to->otherwise);
}

void el_lock_txn_build_guarded(el_lock_txn *to, const el_guard *guard,
                               const el_write_order *order, const el_op *ops,
                               size_t n_ops) {
  build_guarded(to, guard, ops, n_ops);
  if (order == NULL) return;
  to->compares[to->txn.n_compares++] =
      (el_compare){.test = EL_MOD_REV_IS,
                   .key = order_key(guard, to->text),
                   .rev = order->mod_rev};
}

/* If the order key is our own key, it keeps its value and lease. If it is a marker, it may not
 * exist yet, so it is put with our lease. */
void el_lock_txn_build_touch(el_lock_txn *to, const el_guard *guard) {
  bool is_own = !el_mode_has_markers(guard->keys->mode);
  to->then[0] = (el_op){.kind = EL_OP_PUT,
                        .key = order_key(guard, to->text),
                        .touch = is_own,
                        .lease = is_own ? 0 : guard->keys->lease};
  build_guarded(to, guard, to->then, 1);
}

el_op el_lock_txn_downgrade_op(const el_guard *guard, char *key) {
  el_queue_key marker = el_marker_downgraded(guard->rev);
  return (el_op){.kind = EL_OP_PUT,
                 .key = write_marker(guard, &marker, key),
                 .lease = guard->keys->lease};
}

el_op el_lock_txn_proclaim_op(const el_guard *guard, el_bytes value) {
  return (el_op){.kind = EL_OP_PUT,
                 .key = el_keys_own(guard->keys),
                 .value = value,
                 .lease = guard->keys->lease};
}

/* Reads the results of the else branch of a guarded transaction. */
static void parse_guards(const el_guard *guard, const el_txn_answer *answer,
                         el_write_answer *read) {
  bool are_there = true, is_detached = false;
  for (size_t i = 0; i < answer->n_results; i++) {
    const el_op_result *own = &answer->results[i];
    if (own->n_kvs != 1 || own->kvs[0].create_rev != guard->rev) {
      are_there = false;
    } else if (is_off_lease(guard->keys, own, guard->rev)) {
      is_detached = true;
    }
  }
  read->is_whole = are_there && !is_detached;
  read->is_detached = are_there && is_detached;
}

el_write_answer el_lock_txn_read_guarded(const el_guard *guard,
                                         const el_txn_answer *answer) {
  el_write_answer read = {.outcome =
                              el_outcome_of(&answer->err, answer->sent_ms),
                          .succeeded = answer->succeeded,
                          .rev = answer->rev};
  if (read.outcome.is_done && !read.succeeded && guard->keys != NULL) {
    parse_guards(guard, answer, &read);
  }
  return read;
}
