/* secret: texts that must not linger in memory: passwords, tokens. */
#ifndef ETCDLOCK_BASE_SECRET_H
#define ETCDLOCK_BASE_SECRET_H

#include <stdbool.h>

/* Puts a copy of |from| (NULL: NULL) into |*to|. False when there is no
 * memory. @thread any */
bool el_secret_copy(char **to, const char *from);

/* Wipes and frees; NULL is nothing. @thread any */
void el_secret_free(char *secret);

#endif
