/* entry_int: what the entry's own parts (entry, entry_moves, entry_answer)
 * share: the moves. Each changes the entry and adds the actions that go with
 * it. Not for others. @thread any throughout. */
#ifndef ETCDLOCK_RULES_ENTRY_INT_H
#define ETCDLOCK_RULES_ENTRY_INT_H

#include "rules/entry.h"

/* ---- entry_moves.c ---- */

/* Adds an action, zeroed but for its kind. @thread any */
el_entry_action *el_entry_push(el_entry_actions *out, int kind);

/* Sends a request; none may be out. @thread any */
void el_entry_send_enqueue(el_entry *entry, el_entry_actions *out);

/* @thread any */
void el_entry_send_try(el_entry *entry, el_entry_actions *out, bool all);

/* @thread any */
void el_entry_send_look(el_entry *entry, el_entry_actions *out,
                        bool serializable, bool all);

/* Watches the key of |place|, instead of any other. @thread any */
void el_entry_watch(el_entry *entry, el_entry_actions *out, el_place place,
                    int64_t known_rev);

/* @thread any */
void el_entry_unwatch(el_entry *entry, el_entry_actions *out);

/* Has the timer repeat the request that failed with |event|. @thread any */
void el_entry_retry_later(el_entry *entry, const el_entry_event *event,
                          int64_t now_ms);

/* Begins to queue, or to try. @thread any */
void el_entry_begin(el_entry *entry, el_entry_actions *out);

/* The key is out; |found|: it was there until we took it. @thread any */
void el_entry_end_release(el_entry *entry, bool found, el_entry_actions *out);

/* Nobody wants the entry any more: its key goes. @thread any */
void el_entry_take_out(el_entry *entry, el_entry_actions *out);

/* The next step towards "nothing of ours is there". A key whose revision isn't
 * known is looked for, never deleted blindly: a delete that is guarded by its
 * revision can't hit a later key of ours, however late it is applied.
 * @thread any */
void el_entry_take_out_next(el_entry *entry, el_entry_actions *out);

/* As take_out when the key is known to be gone. @thread any */
void el_entry_forget(el_entry *entry, el_entry_actions *out);

/* Tells the holder. @thread any */
void el_entry_lose(el_loss loss, el_entry_actions *out);

/* Tells whoever waits the |verdict| (the kind of an action) and takes the key
 * out. @thread any */
void el_entry_refuse(el_entry *entry, int verdict, el_entry_actions *out);

/* ---- entry_answer.c ---- */

/* The answer to the request that is out. @thread any */
void el_entry_on_answer(el_entry *entry, const el_entry_event *event,
                        int64_t now_ms, el_entry_actions *out);

#endif
