/* of: from a part to the whole that it is embedded in. */
#ifndef ETCDLOCK_BASE_OF_H
#define ETCDLOCK_BASE_OF_H

#include <stddef.h>

/* The |type| whose member |field| is at |part|. */
#define EL_OF(part, type, field) \
  ((type *)(void *)((char *)(part)-offsetof(type, field)))

#endif
