/* sim txn: carries out etcd's transactions on the model's store, as etcd's
 * apply.go does: the very Txns that go to a real etcd. */
#ifndef SIM_TXN_H
#define SIM_TXN_H

#include "etcd/txn.h"
#include "key_id.h"
#include "store.h"

enum { TXN_OPS_MAX = 2 * NAMES_MAX, TXN_KEYS_MAX = 128, TXN_TEXT_MAX = 40 };

/* An answer with the memory that it points into. */
typedef struct txn_result {
  el_txn_answer answer;
  el_op_result results[TXN_OPS_MAX];
  el_kv kvs[TXN_OPS_MAX][TXN_KEYS_MAX];
  char texts[TXN_OPS_MAX][TXN_KEYS_MAX][TXN_TEXT_MAX];
} txn_result;

/* The name in whose queue |key_id| is, or the names as of el_keys_init, in |to| of
 * TXN_TEXT_MAX bytes; the length. */
size_t txn_name(char *to, int key_id);

/* The key of what holders write, in |to| of TXN_TEXT_MAX bytes; the length. What is put there
 * is a number, a uint32_t. */
size_t txn_datum(char *to, int datum);

/* Do the conditions of |txn| hold now? */
bool txn_judge(store *st, const el_txn *txn);

/* Could the operations be carried out that |succeeded| selects? */
bool txn_is_sound(const store *st, const el_txn *txn, bool succeeded);

/* Carries them out through the quorum. |out| must not move afterwards; its revision
 * is still to come: that of the store when all is done. */
void txn_run(store *st, const el_txn *txn, bool succeeded, txn_result *out);

/* The three in one. */
void txn_apply(store *st, const el_txn *txn, txn_result *out);

/* Answers |txn|, which only reads, from the store's state as of |rev|. */
void txn_read(store *st, const el_txn *txn, int64_t rev, txn_result *out);

#endif
