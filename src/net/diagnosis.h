/* diagnosis: asks OpenSSL why a connection fails, on a thread of its own.
 *
 * The question blocks (a connection, a handshake, perhaps DNS), so it can't be
 * asked on the I/O thread. The thread touches nothing of ours but its own
 * question, and comes back through the loop's inbox.
 */
#ifndef ETCDLOCK_NET_DIAGNOSIS_H
#define ETCDLOCK_NET_DIAGNOSIS_H

#include "base/error.h"
#include "net/loop.h"
#include "tls/tls.h"

typedef struct el_diagnosis el_diagnosis;

/* |found|: |err| says what is wrong. */
typedef void (*el_diagnosis_done)(void *arg, bool found, const el_error *err);

/* Asks what is wrong with |host_port| (see el_tls_explain). |done| is called
 * once, later, on the I/O thread, unless the diagnosis is stopped before. NULL if there is no thread to be had. @thread io */
el_diagnosis *el_diagnosis_start(el_loop *loop, el_tls *tls,
                                 const char *host_port, el_diagnosis_done done,
                                 void *arg);

/* Ends it: |done| isn't called. For the time when |loop| takes no posts any
 * more. @thread io @locks diagnosis->mu */
void el_diagnosis_stop(el_diagnosis *diagnosis);

#endif
