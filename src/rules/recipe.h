/* recipe: the transactions of which a lock is made.
 *
 * Turns an entry's request into a Txn on the keys of one queue, and the answer
 * back into an entry's event; and what a holder asks into a Txn that is guarded by
 * them, and the answer into an event of the order of his writes. Sends nothing itself.
 */
#ifndef ETCDLOCK_RULES_RECIPE_H
#define ETCDLOCK_RULES_RECIPE_H

#include "etcd/txn.h"
#include "rules/entry.h"
#include "rules/key.h"
#include "rules/kind.h"
#include "rules/turn.h"
#include "rules/write_order.h"

/* A transaction that is being made; |txn| points into the rest, so it must stay
 * where it was built. */
typedef struct el_recipe {
  el_txn txn;
  el_compare compares[2 * EL_MULTI_MAX + 1];
  el_op then[2 * EL_MULTI_MAX], otherwise[2 * EL_MULTI_MAX];
  char text[EL_KIND_TEXT_SIZE];
} el_recipe;

/* For a recipe on the stack: only what was built is read of it, and clearing all of its
 * 60 KB, as the compiler is told to do, takes longer than building it. */
#ifdef __has_attribute
#if __has_attribute(uninitialized)
#define EL_UNCLEARED __attribute__((uninitialized))
#endif
#endif
#ifndef EL_UNCLEARED
#define EL_UNCLEARED
#endif

/* Builds the request of |action|. |rev| is the create_revision of our key, 0 if
 * unknown; |value| is what an enqueue or a try puts; of several keys that of the
 * first, a NUL, and that of the others. |keys| and |value| must live as long as the
 * recipe. @thread any */
void el_recipe_build(el_recipe *recipe, const el_keys *keys,
                     const el_entry_action *action, int64_t rev,
                     el_bytes value);

/* Builds the question who is behind our key. @thread any */
void el_recipe_build_census(el_recipe *recipe, const el_keys *keys);

/* Reads the |answer|; |rev| is the create_revision of our key. EL_BEHIND_LOST: one of our keys is
 * gone, or, if |*detached|, off our lease. @thread any */
el_behind el_recipe_read_census(const el_keys *keys, int64_t rev,
                                const el_txn_answer *answer, bool *detached);

/* Fills |event| from the |answer| to the request of |action|. @thread any */
void el_recipe_read(const el_keys *keys, const el_entry_action *action,
                    const el_txn_answer *answer, el_entry_event *event);

/* ---- recipe_write.c: what a holder asks ---- */

/* By whose keys. */
typedef struct el_writer {
  const el_keys *keys;
  int64_t rev; /* their create_revision: the token */
} el_writer;

/* Builds what is carried out only while all keys of |who| are there: |ops|, which must
 * live as long as the recipe, and write in |order|; NULL: they only read, as all do under
 * a read hold. @thread any */
void el_recipe_build_guarded(el_recipe *recipe, const el_writer *who,
                             const el_write_order *order, const el_op *ops,
                             size_t n_ops);

/* Builds what gives another mod_revision to the key on which the order of the writes
 * hangs, and changes nothing else. @thread any */
void el_recipe_build_touch(el_recipe *recipe, const el_writer *who);

/* Reads the |answer| to either. @thread any */
void el_recipe_read_guarded(const el_writer *who, const el_txn_answer *answer,
                            el_write_event *event);

/* The write by which |who|, a writer, only reads from then on. It points into |key|
 * (EL_KEY_SIZE bytes). @thread any */
el_op el_recipe_downgrade(const el_writer *who, char *key);

/* The write by which the key of |who|, who leads, has another |value|. It renews the
 * order (rules/write_order.h). @thread any */
el_op el_recipe_proclaim(const el_writer *who, el_bytes value);

#endif
