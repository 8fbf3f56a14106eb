/* linger: the watch and the timers of an entry whose key may linger. */
#include "lock/linger.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "protocol/lock_txn.h"

typedef struct contention_query {
  el_request request;
  /* NULL: the query was cancelled, its answer is ignored */
  el_linger *linger;
  /* A periodic query (look_later). If it has no answer, the key may linger on until the next query:
   * etcd grants the lock to nobody meanwhile. */
  bool is_repeated;
  el_keys keys;
  int64_t rev; /* create_revision of the held key */
} contention_query;

struct el_linger {
  el_entry *entry;
  void (*on_end)(el_entry *entry, bool is_contended);
  el_watch watch;
  contention_query *query; /* NULL: none is in flight */
  el_timer end;
  el_timer look; /* sends the next query, because a watch may be silent */
};

static void end_query(const contention_query *query,
                      const el_txn_answer *answer) {
  el_entry *entry = query->linger->entry;
  bool detached;
  el_contention behind =
      el_lock_txn_read_contention(&query->keys, query->rev, answer, &detached);
  if (behind == EL_CONTENTION_KEY_LOST) {
    el_entry_lose_key(entry, query->rev, detached);
  } else if (behind == EL_CONTENTION_WAITERS ||
             (behind == EL_CONTENTION_UNKNOWN && !query->is_repeated)) {
    query->linger->on_end(entry, true);
  }
}

static void on_query_answer(el_request *request, el_txn_answer *answer) {
  contention_query *query = EL_CONTAINER_OF(request, contention_query, request);
  if (query->linger != NULL) query->linger->query = NULL;
  if (answer != NULL && query->linger != NULL) end_query(query, answer);
  if (answer != NULL) el_txn_answer_free(answer);
  el_keys_destroy(&query->keys);
  free(query);
}

static void cancel_query(el_linger *linger) {
  if (linger->query != NULL) linger->query->linger = NULL;
  linger->query = NULL;
}

static void query_contention(el_linger *linger, bool is_repeated) {
  const el_entry *entry = linger->entry;
  contention_query *query = el_alloc(sizeof *query);
  EL_UNINITIALIZED el_lock_txn built;
  query->request.done = on_query_answer;
  query->request.counted_as = offsetof(el_stats, looks);
  query->linger = linger;
  query->is_repeated = is_repeated;
  query->rev = entry->rev;
  el_keys_copy(&query->keys, &entry->keys);
  el_lock_txn_build_contention(&built, &query->keys);
  linger->query = query;
  el_request_queue_send(entry->session->shared->requests, &query->request,
                        &built.txn);
}

static void on_watch_event(el_watch *watch, const el_watch_event *event) {
  el_linger *linger = EL_CONTAINER_OF(watch, el_linger, watch);
  const el_entry *entry = linger->entry;
  switch (event->kind) {
    case EL_WATCH_CREATED:
      EL_COUNT(&entry->session->shared->counters, watches, 1);
      cancel_query(linger);
      query_contention(linger, false);
      return;
    case EL_WATCH_PUT:
      if (!el_bytes_are_equal(event->key, el_keys_own(&entry->keys)) &&
          el_conflict_is_waiter(&entry->keys, event->key, event->lease)) {
        linger->on_end(linger->entry, true);
      }
      return;
    case EL_WATCH_REFUSED:
      linger->on_end(linger->entry, true);
      return;
    case EL_WATCH_DELETED:
      return;
  }
}

/* A client that takes its lingering key again sends no request, and a watch may be silent: a proxy
 * may hold its events back. So a query looks for other waiters every third of the TTL, too. */
static void look_later(el_linger *linger) {
  const el_session *session = linger->entry->session;
  int64_t ttl_ms = session->lease.ttl_ms;
  el_timers_set(session->shared->timers, &linger->look,
                el_now_ms() + ttl_ms / 3);
}

static void on_look(el_timer *timer) {
  el_linger *linger = EL_CONTAINER_OF(timer, el_linger, look);
  if (linger->query == NULL) query_contention(linger, true);
  look_later(linger);
}

static void on_end_due(el_timer *timer) {
  el_linger *linger = EL_CONTAINER_OF(timer, el_linger, end);
  linger->on_end(linger->entry, false);
}

el_linger *el_linger_start(el_entry *entry,
                           void (*on_end)(el_entry *entry, bool is_contended)) {
  el_linger *linger = el_alloc(sizeof *linger);
  linger->entry = entry;
  linger->on_end = on_end;
  linger->end.on_due = on_end_due;
  linger->look.on_due = on_look;
  linger->watch.on_event = on_watch_event;
  el_watch_start_prefix(entry->session->shared->watches, &linger->watch,
                        el_keys_queue_prefix(&entry->keys));
  look_later(linger);
  return linger;
}

void el_linger_stop(el_linger *linger) {
  const el_session *session;
  if (linger == NULL) return;
  session = linger->entry->session;
  el_watch_stop(session->shared->watches, &linger->watch);
  cancel_query(linger);
  el_timers_stop(session->shared->timers, &linger->end);
  el_timers_stop(session->shared->timers, &linger->look);
  free(linger);
}

void el_linger_set_end(el_linger *linger, int64_t at_ms) {
  el_timers *timers = linger->entry->session->shared->timers;
  if (at_ms != 0) {
    el_timers_set(timers, &linger->end, at_ms);
  } else {
    el_timers_stop(timers, &linger->end);
  }
}
