/* simulation main: simulation SEED prints the story of one history; simulation FROM COUNT runs
 * histories until one breaks a promise; simulation scenes prints the table of scenes.c, and
 * simulation scenes ROW SEED the story of one of its scenes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"
#include "scenes.h"
#include "world.h"

enum { COUNT = 2500 }; /* the histories of a run without arguments */

int main(int n, char **words) {
  uint64_t from = n > 1 ? strtoull(words[1], NULL, 10) : 1;
  uint64_t count = n > 2 ? strtoull(words[2], NULL, 10) : n > 1 ? 1 : COUNT;
  history_counts counts = {0};
  if (n > 1 && strcmp(words[1], "scenes") == 0) {
    if (n == 4) {
      scenes_trace(atoi(words[2]), strtoull(words[3], NULL, 10));
    } else {
      scenes_print();
    }
    return 0;
  }
  setvbuf(stdout, NULL, _IOFBF, 1 << 16);
  world_set_tracing(n == 2);
  for (uint64_t seed = from; seed < from + count; seed++) {
    if (!history_run(seed, &counts)) {
      printf("history %" PRIu64 " breaks the promise \"%s\"\n", seed,
             world_violation());
      return 1;
    }
  }
  printf("%" PRIu64 " histories, %" PRId64
         " grants, %.0f s: no promise broken\n",
         count, counts.n_grants, (double)counts.virtual_us / WORLD_S);
  return 0;
}
