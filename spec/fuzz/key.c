/* Keys that anybody has written below a name, and names that a caller takes from a request. */
#include "fuzz.h"

#include "protocol/key.h"
#include "protocol/conflict_matrix.h"

/* A key that is taken for an entry is the one that such an entry has. */
static void check_entry(el_bytes name, el_bytes key,
                        const el_queue_key *place) {
  char own[EL_KEY_SIZE];
  FUZZ_CHECK(place->lease != 0);
  FUZZ_CHECK(place->permits <= EL_PERMITS_MAX);
  FUZZ_CHECK((place->permits != 0) == (place->mode == EL_MODE_PERMIT));
  if (name.len > EL_NAME_MAX) return;
  FUZZ_CHECK(el_key_write(own, name, place) == key.len);
  FUZZ_CHECK(memcmp(own, key.data, key.len) == 0);
}

static void read_queue(el_bytes name, el_bytes key, int64_t lease) {
  el_queue_key place = {.mode = EL_MODE_LOCK, .lease = 0x1234};
  el_keys keys;
  el_kv kv = {.key = key, .create_rev = 5, .mod_rev = 5, .lease = lease};
  el_op_result notes = {.kind = EL_OP_RANGE, .kvs = &kv, .n_kvs = 1};
  if (name.len > EL_NAME_MAX || memchr(name.data, '\0', name.len) != NULL) {
    return;
  }
  for (int mode = EL_MODE_LOCK; mode <= EL_MODE_MULTI; mode++) {
    place.mode = (el_mode)mode;
    place.permits = mode == EL_MODE_PERMIT ? 2 : 0;
    place.slot = mode == EL_MODE_MULTI ? 1 : 0;
    el_keys_init(&keys, name, &place);
    el_conflict_is_blocker(&keys, &kv, mode == EL_MODE_READ ? &notes : NULL,
                           &(el_queue_key){0});
    el_conflict_is_waiter(&keys, key, lease);
    el_keys_destroy(&keys);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input in = {data, size};
  int64_t lease = (int64_t)fuzz_number(&in, 4) * 0x1234;
  el_bytes name = fuzz_part(&in), key = fuzz_part(&in), list = key, found;
  el_queue_key place = {0};
  if (el_key_parse(name.data, name.len, key.data, key.len, &place)) {
    check_entry(name, key, &place);
  }
  if (el_key_is_entry(name, key, lease, &place)) {
    check_entry(name, key, &place);
  }
  found = el_key_name(key, &place);
  if (found.len > 0) check_entry(found, key, &place);
  el_key_is_detached(key, lease);
  el_key_reserved_suffix(name);
  while (list.len > 0) {
    el_list_pop(&list);
  }
  read_queue(name, key, lease);
  el_bytes_free(name);
  el_bytes_free(key);
  return 0;
}
