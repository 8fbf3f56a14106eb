/* header: which values an HTTP header can carry. */
#include "net/header.h"

#include <stdbool.h>

size_t el_header_illegal_at(const char *value) {
  for (size_t i = 0; value[i] != '\0'; i++) {
    bool is_end = i == 0 || value[i + 1] == '\0';
    if (value[i] < (is_end ? '!' : ' ') || value[i] > '~') return i + 1;
  }
  return 0;
}
