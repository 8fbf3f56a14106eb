/* kind: which keys of a queue stand in whose way, and where they are. */
#include "rules/kind.h"

#include <string.h>

/* The range of what begins with |stem|, which ends with a slash. Written to |*text|,
 * which moves on. */
static el_key_range below(el_bytes stem, char **text) {
  char *to = *text;
  memcpy(to, stem.data, stem.len);
  to[stem.len - 1] = '/' + 1;
  *text += stem.len;
  return (el_key_range){.from = stem, .to = {to, stem.len}};
}

static el_key_range of_mode(const el_keys *keys, el_mode mode, char **text) {
  char *stem = *text;
  size_t len = el_key_write_stem(stem, el_keys_name(keys), mode);
  *text += len;
  return below((el_bytes){stem, len}, text);
}

/* Those of plain locks: hex digits come before what else is below a name. */
static el_key_range plain(const el_keys *keys, char **text) {
  el_bytes from = el_keys_below(keys);
  char *to = *text;
  memcpy(to, from.data, from.len);
  to[from.len] = 'f' + 1;
  *text += from.len + 1;
  return (el_key_range){.from = from, .to = {to, from.len + 1}};
}

size_t el_kind_ranges(const el_keys *keys, el_key_range *ranges, char *text) {
  size_t n = 0;
  switch (keys->mode) {
    case EL_MODE_READ:
      ranges[0] = plain(keys, &text);
      ranges[1] = of_mode(keys, EL_MODE_WRITE, &text);
      ranges[2] = of_mode(keys, EL_NOTE_DOWNGRADED, &text);
      return 3;
    case EL_MODE_PERMIT:
      ranges[0] = of_mode(keys, EL_MODE_PERMIT, &text);
      return 1;
    case EL_MODE_MULTI:
      for (; keys != NULL; keys = keys->next) {
        *ranges++ = below(el_keys_below(keys), &text);
        n++;
      }
      return n;
    default:
      ranges[0] = below(el_keys_below(keys), &text);
      return 1;
  }
}

bool el_kind_reads_notes(el_mode mode) { return mode == EL_MODE_READ; }

el_place el_kind_downgrade_note(int64_t rev) {
  return (el_place){.mode = EL_NOTE_DOWNGRADED, .lease = rev};
}

el_place el_kind_order_note(int64_t rev) {
  return (el_place){.mode = EL_NOTE_WRITE_ORDER, .lease = rev};
}

/* The note is attached to the writer's lease, as the writer's key. */
static bool is_downgraded(const el_keys *keys, const el_place *writer,
                          const el_op_result *notes) {
  el_place note = el_kind_downgrade_note(writer->rev);
  char key[EL_KEY_SIZE];
  el_bytes wanted = {key, el_key_write(key, el_keys_name(keys), &note)};
  for (size_t i = 0; i < notes->n_kvs; i++) {
    if (el_bytes_are_equal(notes->kvs[i].key, wanted)) {
      return el_place_is_attached(writer, notes->kvs[i].lease);
    }
  }
  return false;
}

bool el_kind_is_in_way(el_mode older, el_mode younger) {
  if (older == EL_MODE_PERMIT || younger == EL_MODE_PERMIT) {
    return older == younger;
  }
  return older != EL_MODE_READ || younger != EL_MODE_READ;
}

bool el_kind_is_entry(el_bytes name, el_bytes key, int64_t lease,
                      el_place *place) {
  return el_key_parse(name.data, name.len, key.data, key.len, place) &&
         el_place_is_attached(place, lease);
}

bool el_kind_counts(const el_keys *keys, const el_kv *kv,
                    const el_op_result *notes, el_place *place) {
  place->rev = kv->create_rev;
  if (!el_kind_is_entry(el_keys_name(keys), kv->key, kv->lease, place)) {
    return false;
  }
  if (!el_kind_is_in_way(place->mode, keys->mode)) return false;
  return notes == NULL || place->mode != EL_MODE_WRITE ||
         !is_downgraded(keys, place, notes);
}

bool el_kind_waits(const el_keys *keys, el_bytes key, int64_t lease) {
  el_place place;
  return el_kind_is_entry(el_keys_name(keys), key, lease, &place) &&
         el_kind_is_in_way(keys->mode, place.mode);
}

bool el_kind_may_change(const el_keys *keys, const el_place *place,
                        el_place *note) {
  *note = el_kind_downgrade_note(place->rev);
  return keys->mode == EL_MODE_READ && place->mode == EL_MODE_WRITE &&
         !place->is_timed;
}

bool el_kind_has_notes(el_mode mode) { return mode == EL_MODE_WRITE; }

bool el_kind_leaves_more(el_mode mode) {
  return el_kind_has_notes(mode) || mode == EL_MODE_MULTI;
}

size_t el_kind_notes(const el_keys *keys, int64_t rev, el_key_range *ranges,
                     char *text) {
  el_place notes[] = {el_kind_order_note(rev), el_kind_downgrade_note(rev)};
  if (!el_kind_has_notes(keys->mode)) return 0;
  for (size_t i = 0; i < 2; i++) {
    size_t len = el_key_write(text, el_keys_name(keys), &notes[i]);
    ranges[i] = (el_key_range){.from = {text, len}};
    text += len;
  }
  return 2;
}
