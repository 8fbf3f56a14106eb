/* container_of: finds the struct that contains a given member. */
#ifndef ETCDLOCK_BASE_CONTAINER_OF_H
#define ETCDLOCK_BASE_CONTAINER_OF_H

#include <stddef.h>

/* EL_CONTAINER_OF returns a pointer to the |type| whose member |field| is at |member|. */
#define EL_CONTAINER_OF(member, type, field) \
  ((type *)(void *)((char *)(member)-offsetof(type, field)))

#endif
