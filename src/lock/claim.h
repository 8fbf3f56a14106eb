/* claim: until when a session's holders may say "held".
 *
 * It decides that together with the state and the hard end of an el_lock, and all
 * three are shared by the I/O thread and Lua threads. A reader loads the claim first and the lock's
 * state after it; the writer marks lost locks first and prolongs the claim
 * after that. So a lock that was lost can't look held again.
 */
#ifndef ETCDLOCK_LOCK_CLAIM_H
#define ETCDLOCK_LOCK_CLAIM_H

#include <stdint.h>

#include "rules/entry.h"

typedef struct el_claim el_claim;

/* A claim of nothing, with one reference. @thread any */
el_claim *el_claim_new(void);

/* @thread any */
el_claim *el_claim_ref(el_claim *claim);

/* @thread any */
void el_claim_unref(el_claim *claim);

/* Until when (el_now_ms) the claim holds. 0, with |loss|: it doesn't. After its time, or without
 * one, |loss| is EL_LOSS_EXPIRED. @thread any */
int64_t el_claim_until(const el_claim *claim, el_loss *loss);

/* @thread io */
void el_claim_set(el_claim *claim, int64_t until_ms);

/* The lease has ended before the claim, for |loss|: all holds of the session are lost from here
 * on, before each is told. Does nothing after the claim's time. @thread io */
void el_claim_end(el_claim *claim, el_loss loss);

#endif
