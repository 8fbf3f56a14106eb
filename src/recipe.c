/* L3 recipe: the four transactions of which a lock is made. */
#include "recipe.h"

#include <string.h>

void el_queue_init(el_queue *queue, const char *name, size_t name_len,
                   int64_t lease) {
  memset(queue, 0, sizeof *queue);
  memcpy(queue->name, name, name_len);
  queue->name_len = name_len;
  memcpy(queue->from, name, name_len);
  queue->from[name_len] = '/';
  memcpy(queue->to, name, name_len);
  queue->to[name_len] = '/' + 1;
  queue->lease = lease;
  queue->key_len = el_lock_key(queue->key, name, name_len, EL_MODE_LOCK, lease);
}

void el_queue_range(const el_queue *queue, el_bytes *from, el_bytes *to) {
  *from = (el_bytes){queue->from, queue->name_len + 1};
  *to = (el_bytes){queue->to, queue->name_len + 1};
}

static el_bytes own_key(const el_queue *queue) {
  return (el_bytes){queue->key, queue->key_len};
}

/* ---- requests ---- */

static el_op read_own(const el_queue *queue) {
  return (el_op){.kind = EL_OP_RANGE, .key = own_key(queue), .keys_only = true};
}

static el_op put_own(const el_queue *queue, el_bytes value) {
  return (el_op){.kind = EL_OP_PUT,
                 .key = own_key(queue),
                 .value = value,
                 .lease = queue->lease};
}

static el_op list(const el_queue *queue, int sort, int64_t limit) {
  el_op op = {.kind = EL_OP_RANGE, .limit = limit, .keys_only = true};
  op.sort = sort;
  el_queue_range(queue, &op.key, &op.range_end);
  return op;
}

/* After concurrency/mutex.go: put if absent, and see in the same transaction
 * who is ahead. The else branch makes a repeat harmless. */
static void send_enqueue(el_auth *auth, const el_queue *queue, el_bytes value,
                         int64_t timeout_ms, el_txn_done done, void *arg) {
  el_compare absent = {
      .test = EL_CREATE_REV_IS, .key = own_key(queue), .rev = 0};
  el_op then[2] = {put_own(queue, value), list(queue, EL_SORT_YOUNGEST, 2)};
  el_op otherwise = read_own(queue);
  el_txn txn = {&absent, 1, then, 2, &otherwise, 1};
  el_kv_txn(auth, &txn, timeout_ms, done, arg);
}

/* A compare on a range must hold for all its keys, and an empty range compares
 * as revision 0 (apply.go applyCompare): with bound 1 the put happens only if
 * nothing is there, and a failed try writes nothing. */
static void send_try(el_auth *auth, const el_queue *queue,
                     const el_entry_action *action, el_bytes value,
                     int64_t timeout_ms, el_txn_done done, void *arg) {
  el_compare nobody = {.test = EL_CREATE_REV_BELOW, .rev = action->bound};
  el_op then = put_own(queue, value);
  el_op otherwise[2] = {read_own(queue),
                        list(queue, EL_SORT_OLDEST, action->all ? 0 : 1)};
  el_txn txn = {&nobody, 1, &then, 1, otherwise, 2};
  el_queue_range(queue, &nobody.key, &nobody.range_end);
  el_kv_txn(auth, &txn, timeout_ms, done, arg);
}

static void send_look(el_auth *auth, const el_queue *queue,
                      const el_entry_action *action, int64_t rev,
                      int64_t timeout_ms, el_txn_done done, void *arg) {
  el_op ops[2] = {read_own(queue),
                  list(queue, EL_SORT_YOUNGEST, action->all ? 0 : 1)};
  el_txn txn = {.then = ops, .n_then = rev > 1 ? 2 : 1};
  ops[1].max_create_rev = rev - 1;
  ops[0].serializable = ops[1].serializable = action->serializable;
  el_kv_txn(auth, &txn, timeout_ms, done, arg);
}

static void send_delete(el_auth *auth, const el_queue *queue, int64_t guard,
                        int64_t timeout_ms, el_txn_done done, void *arg) {
  el_compare mine = {
      .test = EL_CREATE_REV_IS, .key = own_key(queue), .rev = guard};
  el_op then = {.kind = EL_OP_DELETE, .key = own_key(queue)};
  el_txn txn = {&mine, 1, &then, 1, NULL, 0};
  el_kv_txn(auth, &txn, timeout_ms, done, arg);
}

void el_recipe_send(el_auth *auth, const el_queue *queue,
                    const el_entry_action *action, int64_t rev, el_bytes value,
                    int64_t timeout_ms, el_txn_done done, void *arg) {
  switch (action->request) {
    case EL_REQUEST_ENQUEUE:
      send_enqueue(auth, queue, value, timeout_ms, done, arg);
      return;
    case EL_REQUEST_TRY:
      send_try(auth, queue, action, value, timeout_ms, done, arg);
      return;
    case EL_REQUEST_LOOK:
      send_look(auth, queue, action, rev, timeout_ms, done, arg);
      return;
    case EL_REQUEST_DELETE:
      send_delete(auth, queue, action->guard, timeout_ms, done, arg);
      return;
    case EL_REQUEST_NONE:
      return;
  }
}

/* ---- answers ---- */

static bool is_own(const el_queue *queue, const el_kv *kv) {
  return kv->key.len == queue->key_len &&
         memcmp(kv->key.data, queue->key, queue->key_len) == 0;
}

static bool counts(const el_queue *queue, const el_kv *kv, el_place *place) {
  place->rev = kv->create_rev;
  return el_lock_key_parse(queue->name, queue->name_len, kv->key.data,
                           kv->key.len, place);
}

static el_place place_of_own(const el_op_result *result) {
  if (result->n_kvs == 0) return (el_place){0};
  return (el_place){.rev = result->kvs[0].create_rev,
                    .lease = result->kvs[0].lease};
}

/* The first key of |result|, not ours, that counts and is older than |rev|
 * (0: than anything). |*others|: one was there that doesn't count. */
static el_place first_counting(const el_queue *queue,
                               const el_op_result *result, int64_t rev,
                               bool *others) {
  el_place place;
  *others = false;
  for (size_t i = 0; i < result->n_kvs; i++) {
    const el_kv *kv = &result->kvs[i];
    if (is_own(queue, kv)) continue;
    if (counts(queue, kv, &place)) {
      if (rev == 0 || place.rev < rev) return place;
    } else {
      *others = true;
    }
  }
  return (el_place){0};
}

static void read_enqueue(const el_queue *queue, const el_txn_answer *answer,
                         el_entry_event *event) {
  if (answer->succeeded) {
    event->mine = (el_place){.rev = answer->rev, .lease = queue->lease};
    event->older =
        first_counting(queue, &answer->results[1], answer->rev, &event->unsure);
  } else {
    event->mine = place_of_own(&answer->results[0]);
    event->unsure = true;
  }
}

static void read_try(const el_queue *queue, const el_entry_action *action,
                     const el_txn_answer *answer, el_entry_event *event) {
  bool others;
  if (answer->succeeded) {
    event->mine = (el_place){.rev = answer->rev, .lease = queue->lease};
    return;
  }
  event->mine = place_of_own(&answer->results[0]);
  event->older =
      first_counting(queue, &answer->results[1], event->mine.rev, &others);
  event->locked = event->older.rev != 0;
  event->unsure =
      !action->all && others && !event->locked && answer->results[1].more;
}

static void read_look(const el_queue *queue, const el_entry_action *action,
                      const el_txn_answer *answer, el_entry_event *event) {
  bool others;
  event->serializable = action->serializable;
  event->mine = place_of_own(&answer->results[0]);
  if (answer->n_results == 1) return;
  event->older = first_counting(queue, &answer->results[1], 0, &others);
  event->unsure = !action->all && others && event->older.rev == 0 &&
                  answer->results[1].more;
}

void el_recipe_read(const el_queue *queue, const el_entry_action *action,
                    const el_txn_answer *answer, el_entry_event *event) {
  *event = (el_entry_event){.kind = EL_ENTRY_ANSWER,
                            .done = answer->err.code == EL_OK,
                            .definite = answer->err.definite,
                            .retriable = answer->err.retriable,
                            .elsewhere = answer->err.elsewhere,
                            .sent_ms = answer->sent_ms,
                            .term = answer->term,
                            .rev = answer->rev};
  if (!event->done) return;
  switch (action->request) {
    case EL_REQUEST_ENQUEUE:
      read_enqueue(queue, answer, event);
      return;
    case EL_REQUEST_TRY:
      read_try(queue, action, answer, event);
      return;
    case EL_REQUEST_LOOK:
      read_look(queue, action, answer, event);
      return;
    case EL_REQUEST_DELETE:
      event->deleted = answer->succeeded;
      return;
    case EL_REQUEST_NONE:
      return;
  }
}
