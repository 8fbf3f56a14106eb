/* secret: texts that must not linger in memory: passwords, tokens. */
#include "base/secret.h"

#include <stdlib.h>
#include <string.h>

bool el_secret_copy(char **to, const char *from) {
  *to = from != NULL ? strdup(from) : NULL;
  return *to != NULL || from == NULL;
}

void el_secret_free(char *secret) {
  if (secret == NULL) return;
  explicit_bzero(secret, strlen(secret));
  free(secret);
}
