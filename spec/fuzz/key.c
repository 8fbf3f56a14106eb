/* Fuzz target key: any keys below a lock name, and any lock names. */
#include "fuzz.h"

#include "protocol/key.h"
#include "protocol/conflict_matrix.h"

/* Checks that writing |parsed|, the result of parsing |key|, gives |key| again. */
static void check_entry(el_bytes name, el_bytes key,
                        const el_queue_key *parsed) {
  char own[EL_KEY_SIZE];
  FUZZ_CHECK(parsed->lease != 0);
  FUZZ_CHECK(parsed->permits <= EL_PERMITS_MAX);
  FUZZ_CHECK((parsed->permits != 0) == (parsed->mode == EL_MODE_PERMIT));
  if (name.len > EL_NAME_MAX) return;
  FUZZ_CHECK(el_key_write(own, name, parsed) == key.len);
  FUZZ_CHECK(memcmp(own, key.data, key.len) == 0);
}

static void read_queue(el_bytes name, el_bytes key, int64_t lease) {
  el_queue_key own = {.mode = EL_MODE_LOCK, .lease = 0x1234};
  el_keys keys;
  el_kv kv = {.key = key, .create_rev = 5, .mod_rev = 5, .lease = lease};
  el_op_result markers = {.kind = EL_OP_RANGE, .kvs = &kv, .n_kvs = 1};
  if (name.len > EL_NAME_MAX || memchr(name.data, '\0', name.len) != NULL) {
    return;
  }
  for (int mode = EL_MODE_LOCK; mode <= EL_MODE_MULTI; mode++) {
    own.mode = (el_mode)mode;
    own.permits = mode == EL_MODE_PERMIT ? 2 : 0;
    own.slot = mode == EL_MODE_MULTI ? 1 : 0;
    el_keys_init(&keys, name, &own);
    el_conflict_is_blocker(&keys, &kv, mode == EL_MODE_READ ? &markers : NULL,
                           &(el_queue_key){0});
    el_conflict_is_waiter(&keys, key, lease);
    el_keys_destroy(&keys);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input in = {data, size};
  int64_t lease = (int64_t)fuzz_number(&in, 4) * 0x1234;
  el_bytes name = fuzz_part(&in), key = fuzz_part(&in), list = key, found;
  el_queue_key parsed = {0};
  if (el_key_parse(name.data, name.len, key.data, key.len, &parsed)) {
    check_entry(name, key, &parsed);
  }
  if (el_key_is_entry(name, key, lease, &parsed)) {
    check_entry(name, key, &parsed);
  }
  found = el_key_name(key, &parsed);
  if (found.len > 0) check_entry(found, key, &parsed);
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
