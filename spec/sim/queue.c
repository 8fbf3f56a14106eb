/* sim queue: who stands in whose way, by the store's own word. */
#include "queue.h"

static bool is_downgraded(const store *st, const key *writer) {
  int name = spot_name(writer->spot);
  const key *note = store_find(st, spot_make(name, EL_NOTE_DOWNGRADED, 0),
                               writer->create_rev);
  return spot_mode(writer->spot) == EL_MODE_WRITE && note != NULL &&
         note->create_rev != 0;
}

static bool is_note(const key *it) {
  return spot_mode(it->spot) == EL_NOTE_DOWNGRADED;
}

sim_way queue_way(int spot) {
  return spot_mode(spot) == EL_MODE_READ     ? WAY_READ
         : spot_mode(spot) == EL_MODE_PERMIT ? WAY_PERMIT
                                             : WAY_WRITE;
}

int queue_limit(int spot) {
  return queue_way(spot) == WAY_PERMIT ? spot_permits(spot) : 1;
}

static bool is_in_way(const store *st, const key *it, int name, sim_way way) {
  el_mode mode;
  if (it->create_rev == 0 || spot_name(it->spot) != name || key_is_nested(it)) {
    return false;
  }
  mode = spot_mode(it->spot);
  if (is_note(it) || (mode == EL_MODE_PERMIT) != (way == WAY_PERMIT)) {
    return false;
  }
  return way != WAY_READ || (mode != EL_MODE_READ && !is_downgraded(st, it));
}

int queue_count_older(const store *st, int name, int64_t rev, sim_way way,
                      const key **one) {
  int n = 0;
  for (int i = 0; i < st->n_keys; i++) {
    const key *it = &st->keys[i];
    if (!is_in_way(st, it, name, way) || it->create_rev >= rev) continue;
    if (one != NULL) *one = it;
    n++;
  }
  return n;
}

static void note_free(world *wd, int name, sim_way way) {
  int64_t *since_ms = &wd->names[name].free_since_ms[way];
  int limit = way == WAY_PERMIT ? PERMITS : 1;
  if (queue_count_older(&wd->store, name, INT64_MAX, way, NULL) >= limit) {
    *since_ms = 0;
  } else if (*since_ms == 0) {
    *since_ms = wd->now_ms;
  }
}

/* A key is deleted, or its writer only reads from now on: who is next? */
static void note_front(world *wd, const key *gone, sim_way way) {
  int name = spot_name(gone->spot);
  if (way == WAY_PERMIT ||
      queue_count_older(&wd->store, name, gone->create_rev, way, NULL) == 0) {
    wd->names[name].front_since_ms[way] = wd->now_ms;
  }
}

void queue_note(world *wd, const change *what) {
  const key *before = &what->before;
  int name = spot_name(before->spot);
  for (sim_way way = 0; way < WAYS; way++) {
    note_free(wd, name, way);
  }
  if (is_note(before)) {
    note_front(wd, &what->after, WAY_READ);
  } else if (before->create_rev != 0 && what->after.create_rev == 0 &&
             queue_way(before->spot) == WAY_PERMIT) {
    note_front(wd, before, WAY_PERMIT);
  } else if (before->create_rev != 0 && what->after.create_rev == 0) {
    note_front(wd, before, WAY_WRITE);
    note_front(wd, before, WAY_READ);
  }
}
