/* kind: which keys of a queue stand in whose way, and where they are.
 *
 * A reader waits for the writers that are older, a writer and a plain lock for
 * everything that is older: so nobody starves, and the order is that in which they
 * asked. A writer that has become a reader (lock:downgrade) keeps its key, and has a note
 * that says so. An entry for a permit names how many permits there are, n, and holds one
 * while fewer than n entries of the semaphore are older, whatever n these name: so programs
 * with two numbers together hold at most the larger number of permits. Who
 * locks several names waits in the queue of each: as his keys are of one revision, and
 * everybody waits for older ones only, no two wait for each other.
 */
#ifndef ETCDLOCK_RULES_KIND_H
#define ETCDLOCK_RULES_KIND_H

#include <stdbool.h>

#include "etcd/txn.h"
#include "rules/key.h"

enum {
  EL_KIND_RANGES_MAX = EL_MULTI_MAX,
  EL_KIND_TEXT_SIZE = EL_KIND_RANGES_MAX * (EL_NAME_MAX + 2)
};

/* Keys between |from| and, exclusive, |to|; |to| is empty: one key. */
typedef struct el_key_range {
  el_bytes from, to;
} el_key_range;

/* Where to look for those who may be in the way of |keys|, and perhaps others.
 * Returns how many ranges; they point into |keys| and |text| (EL_KIND_TEXT_SIZE
 * bytes). Of several keys each has one, in their order. @thread any */
size_t el_kind_ranges(const el_keys *keys, el_key_range *ranges, char *text);

/* Is the last of |mode|'s ranges that of the notes of writers who only read?
 * @thread any */
bool el_kind_reads_notes(el_mode mode);

/* Is a key of mode |older| in the way of a younger one of the same name? @thread any */
bool el_kind_is_in_way(el_mode older, el_mode younger);

/* Is |key|, which is attached to |lease| (0: to none), an entry in the queue of |name|? See
 * el_place_is_attached. Fills all of |place| but rev if |key| has the form of one. @thread any */
bool el_kind_is_entry(el_bytes name, el_bytes key, int64_t lease,
                      el_place *place);

/* Is |kv|, if it is older, in the way of |keys|, the first of them? Fills |place| if
 * so. |notes| are what was found where the notes are, NULL: nothing. @thread any */
bool el_kind_counts(const el_keys *keys, const el_kv *kv,
                    const el_op_result *notes, el_place *place);

/* Does |key|, which is attached to |lease|, stand behind |keys| if it is younger? @thread any */
bool el_kind_waits(const el_keys *keys, el_bytes key, int64_t lease);

/* May |place|, which is in the way of |keys|, be there and yet get out of it? Then
 * |note| tells of that when it comes. @thread any */
bool el_kind_may_change(const el_keys *keys, const el_place *place,
                        el_place *note);

/* The note that says that the writer whose key is of |rev| only reads any more.
 * @thread any */
el_place el_kind_downgrade_note(int64_t rev);

/* The note of the writer whose key is of |rev|, on which the order of its writes hangs.
 * @thread any */
el_place el_kind_order_note(int64_t rev);

/* May a key of |mode| have notes? @thread any */
bool el_kind_has_notes(el_mode mode);

/* May something be left where our key, the first one, is gone? @thread any */
bool el_kind_leaves_more(el_mode mode);

/* Where the notes are that our key of |rev| may have, for its release. Returns how many
 * ranges; they point into |text| (EL_KIND_TEXT_SIZE bytes). @thread any */
size_t el_kind_notes(const el_keys *keys, int64_t rev, el_key_range *ranges,
                     char *text);

#endif
