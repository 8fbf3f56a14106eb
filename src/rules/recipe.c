/* recipe: the transactions of which a lock is made. */
#include "rules/recipe.h"

/* ---- requests ---- */

static el_op read_own(const el_keys *keys) {
  return (el_op){
      .kind = EL_OP_RANGE, .key = el_keys_own(keys), .keys_only = true};
}

static el_op put_own(const el_keys *keys, el_bytes value) {
  return (el_op){.kind = EL_OP_PUT,
                 .key = el_keys_own(keys),
                 .value = value,
                 .lease = keys->lease};
}

static el_op list(const el_keys *keys, int sort, int64_t limit) {
  el_op op = {.kind = EL_OP_RANGE, .limit = limit, .keys_only = true};
  op.sort = sort;
  el_keys_range(keys, &op.key, &op.range_end);
  return op;
}

/* After concurrency/mutex.go: put if absent, and see in the same transaction
 * who is ahead. The else branch makes a repeat harmless. */
static void build_enqueue(el_recipe *to, const el_keys *keys, el_bytes value) {
  to->compare = (el_compare){
      .test = EL_CREATE_REV_IS, .key = el_keys_own(keys), .rev = 0};
  to->then[0] = put_own(keys, value);
  to->then[1] = list(keys, EL_SORT_YOUNGEST, 2);
  to->otherwise[0] = read_own(keys);
  to->txn = (el_txn){&to->compare, 1, to->then, 2, to->otherwise, 1};
}

/* A compare on a range must hold for all its keys, and an empty range compares
 * as revision 0 (apply.go applyCompare): with bound 1 the put happens only if
 * nothing is there, and a failed try writes nothing. */
static void build_try(el_recipe *to, const el_keys *keys,
                      const el_entry_action *action, el_bytes value) {
  to->compare = (el_compare){.test = EL_CREATE_REV_BELOW, .rev = action->bound};
  el_keys_range(keys, &to->compare.key, &to->compare.range_end);
  to->then[0] = put_own(keys, value);
  to->otherwise[0] = read_own(keys);
  to->otherwise[1] = list(keys, EL_SORT_OLDEST, action->all ? 0 : 1);
  to->txn = (el_txn){&to->compare, 1, to->then, 1, to->otherwise, 2};
}

static void build_look(el_recipe *to, const el_keys *keys,
                       const el_entry_action *action, int64_t rev) {
  to->then[0] = read_own(keys);
  to->then[1] = list(keys, EL_SORT_YOUNGEST, action->all ? 0 : 1);
  to->then[1].max_create_rev = rev - 1;
  to->then[0].serializable = to->then[1].serializable = action->serializable;
  to->txn = (el_txn){.then = to->then, .n_then = rev > 1 ? 2 : 1};
}

void el_recipe_build_census(el_recipe *to, const el_keys *keys) {
  to->then[0] = read_own(keys);
  to->then[1] = list(keys, EL_SORT_YOUNGEST, 1);
  to->txn = (el_txn){.then = to->then, .n_then = 2};
}

static void build_delete(el_recipe *to, const el_keys *keys, int64_t guard) {
  to->compare = (el_compare){
      .test = EL_CREATE_REV_IS, .key = el_keys_own(keys), .rev = guard};
  to->then[0] = (el_op){.kind = EL_OP_DELETE, .key = el_keys_own(keys)};
  to->txn = (el_txn){&to->compare, 1, to->then, 1, NULL, 0};
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

static bool counts(const el_keys *keys, const el_kv *kv, el_place *place) {
  place->rev = kv->create_rev;
  return el_key_parse(keys->text, keys->name_len, kv->key.data, kv->key.len,
                      place);
}

static el_place place_of_own(const el_op_result *result) {
  if (result->n_kvs == 0) return (el_place){0};
  return (el_place){.rev = result->kvs[0].create_rev,
                    .lease = result->kvs[0].lease};
}

/* The first key of |result| that counts and is older than |rev|, ours (0: any;
 * ours isn't among them). |*others|: one was there that doesn't count. */
static el_place first_counting(const el_keys *keys, const el_op_result *result,
                               int64_t rev, bool *others) {
  el_place place;
  *others = false;
  for (size_t i = 0; i < result->n_kvs; i++) {
    const el_kv *kv = &result->kvs[i];
    if (counts(keys, kv, &place)) {
      if (rev == 0 || place.rev < rev) return place;
    } else {
      *others = true;
    }
  }
  return (el_place){0};
}

static void read_enqueue(const el_keys *keys, const el_txn_answer *answer,
                         el_entry_event *event) {
  if (answer->succeeded) {
    event->mine = (el_place){.rev = answer->rev, .lease = keys->lease};
    event->older =
        first_counting(keys, &answer->results[1], answer->rev, &event->unsure);
  } else {
    event->mine = place_of_own(&answer->results[0]);
    event->unsure = true;
  }
}

static void read_try(const el_keys *keys, const el_entry_action *action,
                     const el_txn_answer *answer, el_entry_event *event) {
  bool others;
  if (answer->succeeded) {
    event->mine = (el_place){.rev = answer->rev, .lease = keys->lease};
    return;
  }
  event->mine = place_of_own(&answer->results[0]);
  event->older =
      first_counting(keys, &answer->results[1], event->mine.rev, &others);
  event->locked = event->older.rev != 0;
  event->unsure =
      !action->all && others && !event->locked && answer->results[1].more;
}

static void read_look(const el_keys *keys, const el_entry_action *action,
                      const el_txn_answer *answer, el_entry_event *event) {
  bool others;
  event->serializable = action->serializable;
  event->mine = place_of_own(&answer->results[0]);
  if (answer->n_results == 1) return;
  event->older = first_counting(keys, &answer->results[1], 0, &others);
  event->unsure = !action->all && others && event->older.rev == 0 &&
                  answer->results[1].more;
}

el_behind el_recipe_read_census(int64_t rev, const el_txn_answer *answer) {
  if (answer->err.code != EL_OK) return EL_BEHIND_UNKNOWN;
  if (place_of_own(&answer->results[0]).rev != rev) return EL_BEHIND_LOST;
  return answer->results[1].kvs[0].create_rev == rev ? EL_BEHIND_NOBODY
                                                     : EL_BEHIND_SOMEBODY;
}

void el_recipe_read(const el_keys *keys, const el_entry_action *action,
                    const el_txn_answer *answer, el_entry_event *event) {
  *event =
      (el_entry_event){.kind = EL_ENTRY_ANSWER,
                       .outcome = el_outcome_of(&answer->err, answer->sent_ms),
                       .term = answer->term,
                       .rev = answer->rev};
  if (!event->outcome.done) return;
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
      event->deleted = answer->succeeded;
      return;
    case EL_REQUEST_NONE:
      return;
  }
}
