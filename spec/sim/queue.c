/* sim queue: who stands in whose way, by the store's own word. */
#include "queue.h"

static bool is_downgraded(const store *st, const key *writer) {
  int name = spot_name(writer->spot);
  const key *note =
      store_find(st, spot_make(name, EL_NOTE_DOWNGRADED, 0), writer->owner);
  return spot_mode(writer->spot) == EL_MODE_WRITE && note != NULL &&
         note->create_rev != 0;
}

static bool is_note(const key *it) {
  return spot_mode(it->spot) == EL_NOTE_DOWNGRADED;
}

/* Is the key, if it is older, in the way of those who only read, or of all others? */
static bool is_in_way(const store *st, const key *it, int name, bool reads) {
  if (spot_name(it->spot) != name || it->create_rev == 0 || key_is_nested(it) ||
      is_note(it)) {
    return false;
  }
  return !reads ||
         (spot_mode(it->spot) != EL_MODE_READ && !is_downgraded(st, it));
}

const key *queue_find_older(const store *st, int name, int64_t rev,
                            bool reads) {
  for (int i = 0; i < st->n_keys; i++) {
    const key *it = &st->keys[i];
    if (is_in_way(st, it, name, reads) && it->create_rev < rev) return it;
  }
  return NULL;
}

static void note_empty(world *wd, int name, bool reads) {
  int64_t *since_ms = &wd->names[name].empty_since_ms[reads];
  if (queue_find_older(&wd->store, name, INT64_MAX, reads) != NULL) {
    *since_ms = 0;
  } else if (*since_ms == 0) {
    *since_ms = wd->now_ms;
  }
}

/* A key is deleted, or its writer only reads from now on: who is next? */
static void note_front(world *wd, const key *gone, bool reads) {
  int name = spot_name(gone->spot);
  if (queue_find_older(&wd->store, name, gone->create_rev, reads) == NULL) {
    wd->names[name].front_since_ms[reads] = wd->now_ms;
  }
}

void queue_note(world *wd, const change *what) {
  const key *before = &what->before;
  int name = spot_name(before->spot);
  note_empty(wd, name, false);
  note_empty(wd, name, true);
  if (is_note(before)) {
    note_front(wd, &what->after, true);
  } else if (before->create_rev != 0 && what->after.create_rev == 0) {
    note_front(wd, before, false);
    note_front(wd, before, true);
  }
}
