/* random: random numbers from the kernel. */
#include "base/random.h"

#include <sys/random.h>

uint64_t el_random(void) {
  uint64_t number;
  while (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
  }
  return number;
}
