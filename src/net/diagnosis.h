/* diagnosis: finds out why connections to a member fail, on a thread of its own.
 *
 * A diagnosis blocks (DNS, connection, handshake), so it cannot run on the I/O thread. The
 * thread of the diagnosis uses only its el_diagnosis and the el_tls, and posts the result to the
 * loop. */
#ifndef ETCDLOCK_NET_DIAGNOSIS_H
#define ETCDLOCK_NET_DIAGNOSIS_H

#include "base/error.h"
#include "net/loop.h"
#include "tls/tls.h"

/* el_diagnosis is one diagnosis, with its thread. */
typedef struct el_diagnosis el_diagnosis;

/* el_diagnosis_done receives the result. If |is_found|, |err| is the cause. */
typedef void (*el_diagnosis_done)(void *arg, bool is_found,
                                  const el_error *err);

/* el_diagnosis_start starts a thread that examines |address| (as el_tls_diagnose). |done| is called
 * once, later, in the loop, unless el_diagnosis_stop is called before. Returns NULL if no thread
 * can be started, or no descriptor is free. @thread io */
el_diagnosis *el_diagnosis_start(el_loop *loop, el_tls *tls,
                                 const char *address, bool is_unix,
                                 el_diagnosis_done done, void *arg);

/* el_diagnosis_cancel tells the thread of |diagnosis| to end, and does not wait. @thread io */
void el_diagnosis_cancel(el_diagnosis *diagnosis);

/* el_diagnosis_stop ends |diagnosis|, which was cancelled, without a call of |done|. It waits for
 * the thread until |until_ms| (el_now_ms); later the thread ends by itself. It may be called only
 * after |loop| has stopped accepting commands. @thread io @locks diagnosis->mu */
void el_diagnosis_stop(el_diagnosis *diagnosis, int64_t until_ms);

#endif
