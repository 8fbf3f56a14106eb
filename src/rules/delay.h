/* delay: how a lease's id tells that nobody follows its holders at once if they crash, and
 * for how long: so that who finds a key in his way knows what to ask about it.
 *
 *   | mark: 16 bits | tenths of a second: 12 | random: 35 |   positive
 *
 * What others' leases say by chance, one in 65,536, is only asked about in vain.
 */
#ifndef ETCDLOCK_RULES_DELAY_H
#define ETCDLOCK_RULES_DELAY_H

#include <stdint.h>

/* |id|, a random one, for a lease with |delay_ms|. @thread any */
int64_t el_delay_mark(int64_t id, int64_t delay_ms);

/* How long a crash keeps others out by |lease|'s id, a tenth of a second more at most than
 * was said; 0: it says nothing of that. @thread any */
int64_t el_delay_of(int64_t lease);

/* The same of the rest of it, where etcd keeps the lease for |left_ms| yet, which it rounds
 * down to seconds; 0: its holder may be alive. @thread any */
int64_t el_delay_left(int64_t lease, int64_t left_ms);

#endif
