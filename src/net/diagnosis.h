/* diagnosis: finds out why connections to a member fail, on a thread of its own.
 *
 * The TLS probe blocks (DNS, connection, handshake), so it cannot run on the I/O thread. Its thread
 * uses nothing but the diagnosis itself, and posts the result to the loop.
 */
#ifndef ETCDLOCK_NET_DIAGNOSIS_H
#define ETCDLOCK_NET_DIAGNOSIS_H

#include "base/error.h"
#include "net/loop.h"
#include "tls/tls.h"

/* el_diagnosis is one diagnosis, with its thread. */
typedef struct el_diagnosis el_diagnosis;

/* el_diagnosis_done receives the result. |is_found|: |err| is the cause. */
typedef void (*el_diagnosis_done)(void *arg, bool is_found,
                                  const el_error *err);

/* el_diagnosis_start examines |address| (see el_tls_probe). |done| is called once, later, in
 * the loop, unless the diagnosis is stopped before. Returns NULL if no thread can be
 * started. @thread io */
el_diagnosis *el_diagnosis_start(el_loop *loop, el_tls *tls,
                                 const char *address, el_diagnosis_done done,
                                 void *arg);

/* el_diagnosis_stop ends |diagnosis|: |done| is not called. Only for the time when |loop| accepts
 * no commands any more. @thread io @locks diagnosis->mu */
void el_diagnosis_stop(el_diagnosis *diagnosis);

#endif
