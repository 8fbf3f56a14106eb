/* sim queue: which keys block which, judged by the store. */
#include "queue.h"

static bool is_downgraded(const store *st, const key *writer) {
  int name = key_id_name(writer->key_id);
  const key *marker = store_find(st, key_id_make(name, EL_MARKER_DOWNGRADED, 0),
                                 writer->create_rev);
  return key_id_mode(writer->key_id) == EL_MODE_WRITE && marker != NULL &&
         marker->create_rev != 0;
}

bool queue_blocks(el_mode mine, el_mode other) {
  switch (mine) {
    case EL_MODE_READ:
      return other != EL_MODE_READ && other != EL_MODE_PERMIT;
    case EL_MODE_PERMIT:
      return other == EL_MODE_PERMIT;
    default:
      return other != EL_MODE_PERMIT;
  }
}

bool queue_excludes(el_mode one, el_mode other) {
  return queue_blocks(one, other) || queue_blocks(other, one);
}

int queue_limit(int key_id) {
  return key_id_mode(key_id) == EL_MODE_PERMIT ? key_id_permits(key_id) : 1;
}

bool queue_is_blocker(const store *st, const key *it, int name, el_mode mine) {
  return key_id_name(it->key_id) == name && key_is_entry(it) &&
         queue_blocks(mine, key_id_mode(it->key_id)) &&
         (mine != EL_MODE_READ || !is_downgraded(st, it));
}

int queue_count_older(const store *st, int name, int64_t rev, el_mode mine,
                      const key **one) {
  int n = 0;
  for (int i = 0; i < st->n_keys; i++) {
    const key *it = &st->keys[i];
    if (!queue_is_blocker(st, it, name, mine) || it->create_rev >= rev)
      continue;
    if (one != NULL) *one = it;
    n++;
  }
  return n;
}

/* Records that keys of mode |mine| are unblocked now, unless a key older than |rev| blocks them.
 * The key of |rev| is gone, or its writer was downgraded. */
static void record_unblocked(world *wd, int name, int64_t rev, el_mode mine) {
  if (mine == EL_MODE_PERMIT ||
      queue_count_older(&wd->store, name, rev, mine, NULL) == 0) {
    wd->names[name].unblocked_ms[mine] = wd->now_ms;
  }
}

void queue_record(world *wd, const change *what) {
  const key *before = &what->before;
  int name = key_id_name(before->key_id);
  if (key_id_mode(before->key_id) == EL_MARKER_DOWNGRADED) {
    record_unblocked(wd, name, what->after.owner, EL_MODE_READ);
  }
  if (key_id_is_marker(before->key_id)) return;
  if (!key_is_entry(before) || key_is_entry(&what->after)) return;
  for (int mine = 0; mine < MODES; mine++) {
    el_mode gone = key_id_mode(before->key_id);
    /* A key of the same mode may have been a key of the waiter's own client. The client can use its
     * entry for the waiter from now on. */
    if (queue_blocks((el_mode)mine, gone) || (el_mode)mine == gone) {
      record_unblocked(wd, name, before->create_rev, (el_mode)mine);
    }
  }
}
