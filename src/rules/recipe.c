/* recipe: the transactions of which a lock is made. */
#include "rules/recipe_int.h"

/* ---- requests ---- */

/* Each of these adds one for each of our keys, and returns how many. */

size_t el_recipe_read_own(const el_keys *keys, el_op *ops) {
  size_t n = 0;
  for (; keys != NULL; keys = keys->next) {
    ops[n++] = (el_op){
        .kind = EL_OP_RANGE, .key = el_keys_own(keys), .keys_only = true};
  }
  return n;
}

/* Of several keys the first gets another value than the rest. */
static size_t put_own(const el_keys *keys, el_bytes value, el_op *ops) {
  el_bytes rest = value,
           first = keys->next != NULL ? el_list_cut(&rest) : value;
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

size_t el_recipe_compare_own(const el_keys *keys, int64_t rev,
                             el_compare *compares) {
  size_t n = 0;
  for (; keys != NULL; keys = keys->next) {
    compares[n++] = (el_compare){
        .test = EL_CREATE_REV_IS, .key = el_keys_own(keys), .rev = rev};
  }
  return n;
}

/* Who waits for a permit sees so many beyond those who may hold, and need not look again
 * until they have gone. */
enum { PERMITS_SEEN = 32 };

/* Adds to |ops| a list of the keys of each range that may be in our way, |limit| of
 * each, and of their notes; returns how many are not of notes. */
static size_t list(el_recipe *to, const el_keys *keys, el_op *ops, int sort,
                   int64_t limit, size_t *n_ops) {
  el_key_range ranges[EL_KIND_RANGES_MAX];
  bool has_notes = el_kind_reads_notes(keys->mode);
  size_t n = el_kind_ranges(keys, ranges, to->text);
  for (size_t i = 0; i < n; i++) {
    ops[i] = (el_op){.kind = EL_OP_RANGE,
                     .key = ranges[i].from,
                     .range_end = ranges[i].to,
                     .limit = has_notes && i == n - 1 ? 0 : limit,
                     .keys_only = true};
    ops[i].sort = sort;
  }
  *n_ops = n;
  return has_notes ? n - 1 : n;
}

/* The same where our own key's place among them is to be seen: those next to it, or of a
 * semaphore's all that may hold, and some more. */
static size_t list_near(el_recipe *to, const el_keys *keys, el_op *ops,
                        int64_t limit, size_t *n_ops) {
  if (keys->mode != EL_MODE_PERMIT) {
    return list(to, keys, ops, EL_SORT_YOUNGEST, limit, n_ops);
  }
  if (limit != 0) limit = keys->permits + PERMITS_SEEN;
  return list(to, keys, ops, EL_SORT_OLDEST, limit, n_ops);
}

/* After concurrency/mutex.go: put if absent, and see in the same transaction
 * who is ahead. The else branch makes a repeat harmless. The two youngest are our own
 * key and the one before it, where ours is among them. */
static void build_enqueue(el_recipe *to, const el_keys *keys, el_bytes value) {
  size_t own = put_own(keys, value, to->then), n;
  el_recipe_compare_own(keys, 0, to->compares);
  list_near(to, keys, to->then + own, 2, &n);
  el_recipe_read_own(keys, to->otherwise);
  to->txn = (el_txn){to->compares, own, to->then, own + n, to->otherwise, own};
}

/* A compare on a range must hold for all its keys, and an empty range compares
 * as revision 0 (apply.go applyCompare): with bound 1 the put happens only if
 * nothing is there, and a failed try writes nothing. Nor does a repeat, which finds our
 * own key. */
static void build_try(el_recipe *to, const el_keys *keys,
                      const el_entry_action *action, el_bytes value) {
  size_t own = put_own(keys, value, to->then), n, n_queued;
  el_recipe_compare_own(keys, 0, to->compares);
  el_recipe_read_own(keys, to->otherwise);
  n_queued = list(to, keys, to->otherwise + own, EL_SORT_OLDEST,
                  action->all ? 0 : 1 + keys->permits, &n);
  for (size_t i = own; i < own + n_queued; i++) {
    to->compares[i] = (el_compare){.test = EL_CREATE_REV_BELOW,
                                   .key = to->otherwise[i].key,
                                   .range_end = to->otherwise[i].range_end,
                                   .rev = action->bound};
  }
  to->txn = (el_txn){to->compares, own + n_queued, to->then,
                     own,          to->otherwise,  own + n};
}

static void build_look(el_recipe *to, const el_keys *keys,
                       const el_entry_action *action, int64_t rev) {
  size_t own = el_recipe_read_own(keys, to->then), n = 0, n_queued = 0;
  if (rev > 1) {
    n_queued = list_near(to, keys, to->then + own, action->all ? 0 : 1, &n);
  }
  for (size_t i = 0; i < own + n; i++) {
    if (i >= own && i < own + n_queued) to->then[i].max_create_rev = rev - 1;
    to->then[i].serializable = action->serializable;
  }
  to->txn = (el_txn){.then = to->then, .n_then = own + n};
}

/* So many keys of user data that are younger than ours do not hide an entry. */
enum { BEHIND_SEEN = 10 };

void el_recipe_build_census(el_recipe *to, const el_keys *keys) {
  size_t own = el_recipe_read_own(keys, to->then), n, n_queued;
  n_queued = list(to, keys, to->then + own, EL_SORT_YOUNGEST, BEHIND_SEEN, &n);
  to->txn = (el_txn){.then = to->then, .n_then = own + n_queued};
}

/* Notes, and what is left of several keys, go in any case: nobody else takes them out
 * when one key has gone. They can't be another hold's: notes have the revision in their
 * names, and of several keys the slot isn't used again while this may be on its way (see
 * lock/local_queue_driver.h). A key of ours that somebody has taken off its lease goes, too; but then
 * the hold had been lost, and so the keys are read first. */
static void build_delete(el_recipe *to, const el_keys *keys, int64_t guard) {
  el_key_range notes[EL_KIND_RANGES_MAX];
  size_t n_notes = el_kind_notes(keys, guard, notes, to->text);
  size_t own = el_recipe_read_own(keys, to->then), n_then = own, n = 0;
  n_then += delete_own(keys, to->then + own);
  el_recipe_compare_own(keys, guard, to->compares);
  if (own > 1) {
    n = el_recipe_read_own(keys, to->otherwise);
    n += delete_own(keys, to->otherwise + n);
  }
  for (size_t i = 0; i < n_notes; i++) {
    to->otherwise[n] = (el_op){
        .kind = EL_OP_DELETE, .key = notes[i].from, .range_end = notes[i].to};
    to->then[n_then++] = to->otherwise[n++];
  }
  to->txn = (el_txn){to->compares, own, to->then, n_then, to->otherwise, n};
}

void el_recipe_build(el_recipe *recipe, const el_keys *keys,
                     const el_entry_action *action, int64_t rev,
                     el_bytes value) {
  switch (action->request) {
    case EL_REQUEST_ENQUEUE:
      build_enqueue(recipe, keys, value);
      return;
    case EL_REQUEST_TRY:
      build_try(recipe, keys, action, value);
      return;
    case EL_REQUEST_LOOK:
      build_look(recipe, keys, action, rev);
      return;
    case EL_REQUEST_DELETE:
      build_delete(recipe, keys, action->guard);
      return;
    case EL_REQUEST_NONE:
      recipe->txn = (el_txn){0};
      return;
  }
}

/* ---- answers ---- */

static el_place place_of(const el_op_result *result) {
  if (result->n_kvs == 0) return (el_place){0};
  return (el_place){.rev = result->kvs[0].create_rev,
                    .lease = result->kvs[0].lease};
}

bool el_recipe_is_detached(const el_keys *keys, const el_op_result *own) {
  return own->n_kvs > 0 && own->kvs[0].lease != keys->lease;
}

/* Reads what |answer| begins with, and returns how many results that are. Several keys
 * must be there together, and alike. */
static size_t read_mine(const el_keys *keys, const el_txn_answer *answer,
                        el_entry_event *event) {
  size_t n = el_keys_count(keys);
  event->mine = place_of(&answer->results[0]);
  for (size_t i = 1; i < n; i++) {
    el_place other = place_of(&answer->results[i]);
    if (other.rev != event->mine.rev) event->partial = true;
    if (other.rev == 0) continue;
    if (event->mine.rev == 0 || other.lease != keys->lease) event->mine = other;
  }
  return n;
}

/* What the lists of an answer show of those who are in our way. */
typedef struct el_seen {
  /* The first that counts in its list, the youngest of these. */
  el_place first;
  /* There may be more: a list that is cut off shows only keys that don't count. */
  bool hidden;
  /* So many have to go, at least, before it is our turn. */
  uint32_t missing;
} el_seen;

/* Counts the older entries, whatever number of permits they name. If there are at least
 * |keys->permits|, they are in our way. */
static el_seen read_permits(const el_keys *keys, const el_op_result *list,
                            int64_t rev) {
  el_place place;
  uint32_t ahead = 0; /* gRPC's messages have less than 2^32 bytes */
  for (size_t i = 0; i < list->n_kvs; i++) {
    if (!el_kind_counts(keys, &list->kvs[i], NULL, &place) ||
        (rev != 0 && place.rev >= rev)) {
      continue;
    }
    ahead++;
  }
  if (ahead < keys->permits) return (el_seen){.hidden = list->more};
  return (el_seen){.first = {.rev = 1, .mode = EL_MODE_PERMIT},
                   .missing = ahead - keys->permits + 1};
}

/* Reads the lists of |answer|, which come after the answers about our own keys. |rev| is
 * ours: younger ones are passed over; 0: none are. */
static el_seen read_lists(const el_keys *keys, const el_txn_answer *answer,
                          int64_t rev) {
  bool has_notes = el_kind_reads_notes(keys->mode);
  size_t own = el_keys_count(keys);
  size_t n = answer->n_results - own - (has_notes ? 1 : 0);
  const el_op_result *lists = &answer->results[own];
  const el_op_result *notes = has_notes ? &lists[n] : NULL;
  el_seen seen = {0};
  if (keys->mode == EL_MODE_PERMIT) return read_permits(keys, lists, rev);
  for (size_t i = 0; i < n; i++) {
    size_t others = 0, at = 0;
    el_place place = {0};
    for (; at < lists[i].n_kvs; at++) {
      bool counts = el_kind_counts(keys, &lists[i].kvs[at], notes, &place);
      if (counts && (rev == 0 || place.rev < rev)) break;
      others += !counts;
    }
    if (at < lists[i].n_kvs && place.rev > seen.first.rev) {
      seen.first = place;
      if (own > 1) seen.first.name = (uint8_t)i;
    } else if (at == lists[i].n_kvs && others > 0 && lists[i].more) {
      seen.hidden = true;
    }
    if (own > 1) keys = keys->next; /* each list is of one name */
  }
  return seen;
}

static void tell(const el_seen *seen, el_entry_event *event) {
  event->older = seen->first;
  event->missing = seen->missing;
}

static void read_enqueue(const el_keys *keys, const el_txn_answer *answer,
                         el_entry_event *event) {
  el_seen seen;
  if (answer->succeeded) {
    seen = read_lists(keys, answer, answer->rev);
    event->mine = (el_place){.rev = answer->rev, .lease = keys->lease};
    tell(&seen, event);
    event->unsure = seen.hidden;
  } else {
    read_mine(keys, answer, event);
    event->unsure = true;
  }
}

static void read_try(const el_keys *keys, const el_entry_action *action,
                     const el_txn_answer *answer, el_entry_event *event) {
  el_seen seen;
  if (answer->succeeded) {
    event->mine = (el_place){.rev = answer->rev, .lease = keys->lease};
    return;
  }
  read_mine(keys, answer, event);
  seen = read_lists(keys, answer, event->mine.rev);
  tell(&seen, event);
  event->locked = event->older.rev != 0;
  event->unsure = !action->all && seen.hidden && !event->locked;
}

static void read_look(const el_keys *keys, const el_entry_action *action,
                      const el_txn_answer *answer, el_entry_event *event) {
  el_seen seen;
  event->serializable = action->serializable;
  if (answer->n_results == read_mine(keys, answer, event)) return;
  seen = read_lists(keys, answer, 0);
  tell(&seen, event);
  event->unsure = !action->all && seen.hidden;
}

/* If a part of our keys is there, somebody else took the others: we only ever take out
 * all. What has another revision is of an enqueue that came late. */
static void read_delete(const el_keys *keys, int64_t guard,
                        const el_txn_answer *answer, el_entry_event *event) {
  size_t own = el_keys_count(keys);
  event->deleted = answer->succeeded;
  for (size_t i = 0; answer->succeeded && i < own; i++) {
    if (el_recipe_is_detached(keys, &answer->results[i])) event->partial = true;
  }
  for (size_t i = 0; own > 1 && !answer->succeeded && i < own; i++) {
    if (place_of(&answer->results[i]).rev == guard) event->partial = true;
  }
}

/* Does an entry younger than |rev| wait behind |keys| in |youngest|, or may one do so? */
static bool has_younger(const el_keys *keys, int64_t rev,
                        const el_op_result *youngest) {
  for (size_t i = 0; i < youngest->n_kvs; i++) {
    const el_kv *kv = &youngest->kvs[i];
    if (kv->create_rev <= rev) return false;
    if (el_kind_waits(keys, kv->key, kv->lease)) return true;
  }
  return youngest->more;
}

el_behind el_recipe_read_census(const el_keys *keys, int64_t rev,
                                const el_txn_answer *answer, bool *detached) {
  size_t own = el_keys_count(keys);
  bool is_gone = false;
  *detached = false;
  if (answer->err.code != EL_OK) return EL_BEHIND_UNKNOWN;
  for (size_t i = 0; i < own; i++) {
    is_gone = is_gone || place_of(&answer->results[i]).rev != rev;
    *detached = *detached || el_recipe_is_detached(keys, &answer->results[i]);
  }
  *detached = *detached && !is_gone;
  if (is_gone || *detached) return EL_BEHIND_LOST;
  for (size_t i = own; i < answer->n_results; i++) {
    if (has_younger(keys, rev, &answer->results[i])) {
      return EL_BEHIND_SOMEBODY;
    }
    if (own > 1) keys = keys->next; /* each list is of one name */
  }
  return EL_BEHIND_NOBODY;
}

void el_recipe_read(const el_keys *keys, const el_entry_action *action,
                    const el_txn_answer *answer, el_entry_event *event) {
  *event =
      (el_entry_event){.kind = EL_ENTRY_ANSWER,
                       .outcome = el_outcome_of(&answer->err, answer->sent_ms),
                       .term = answer->term,
                       .rev = answer->rev,
                       .batched = answer->is_batched};
  if (!event->outcome.is_done) return;
  switch (action->request) {
    case EL_REQUEST_ENQUEUE:
      read_enqueue(keys, answer, event);
      return;
    case EL_REQUEST_TRY:
      read_try(keys, action, answer, event);
      return;
    case EL_REQUEST_LOOK:
      read_look(keys, action, answer, event);
      return;
    case EL_REQUEST_DELETE:
      read_delete(keys, action->guard, answer, event);
      return;
    case EL_REQUEST_NONE:
      return;
  }
}
