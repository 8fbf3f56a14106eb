/* sim txn: applies transactions to the store as etcd's apply.go does. The transactions are those
 * that the client sends to a real etcd. */
#ifndef SIM_TXN_H
#define SIM_TXN_H

#include "etcd/txn.h"
#include "key_id.h"
#include "store.h"

enum { TXN_OPS_MAX = 2 * NAMES_MAX + 1, TXN_KEYS_MAX = 128, TXN_TEXT_MAX = 40 };

/* An answer, and the memory to which it points. */
typedef struct txn_result {
  el_txn_answer answer;
  el_op_result results[TXN_OPS_MAX];
  el_kv kvs[TXN_OPS_MAX][TXN_KEYS_MAX];
  char texts[TXN_OPS_MAX][TXN_KEYS_MAX][TXN_TEXT_MAX];
} txn_result;

/* Writes the lock name of |key_id|, or the list of names for el_keys_init, to |to| (TXN_TEXT_MAX
 * bytes) and returns the length. */
size_t txn_name(char *to, int key_id);

/* Writes the key of |datum| to |to| (TXN_TEXT_MAX bytes) and returns the length. Its values are
 * uint32_t numbers. */
size_t txn_datum(char *to, int datum);

/* Tells whether the compares of |txn| hold. */
bool txn_judge(store *st, const el_txn *txn);

/* Tells whether the operations of |txn| that |succeeded| selects can be applied. */
bool txn_is_sound(const store *st, const el_txn *txn, bool succeeded);

/* Applies the operations of |txn| that |succeeded| selects. |out| must not be moved afterwards. The
 * caller sets out->answer.rev to the revision of the store after all operations. */
void txn_run(store *st, const el_txn *txn, bool succeeded, txn_result *out);

/* Evaluates the compares of |txn| and applies the selected operations. If these cannot be applied,
 * |out| contains an error. */
void txn_apply(store *st, const el_txn *txn, txn_result *out);

/* Answers |txn|, which only reads, from the store's state as of |rev|. */
void txn_read(store *st, const el_txn *txn, int64_t rev, txn_result *out);

#endif
