/* sim: the lock logic of src/protocol against a model of etcd, in seeded histories.
 *
 *   sim                      runs 25,000 histories, seeds 1 and up
 *   sim --from A --count N   runs N of them, seeds A and up
 *   sim --first              stops at the first that fails
 *   sim SEED                 runs one history and prints each step
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "caller.h"
#include "history.h"
#include "peer.h"

enum { COUNT = 25000, FAILURES_SHOWN = 10 };

static world wd;
static sim_peer peers[PEERS_MAX];
static sim_caller callers[CALLERS_MAX];

/* Reports in which history an assertion of the step functions failed. */
static void on_abort(int number) {
  char text[100];
  int n = snprintf(text, sizeof text,
                   "\nFAIL seed %" PRIu64 ": aborted\n0 passed, 1 failed\n",
                   wd.seed);
  (void)number;
  if (write(STDOUT_FILENO, text, (size_t)n) < 0) _exit(2);
  _exit(1);
}

static void tell_failure(uint64_t seed) {
  printf("FAIL seed %" PRIu64 ": %s\n  replay it: sim %" PRIu64 "\n", seed,
         wd.violation, seed);
}

/* Runs |*count| histories; if |first|, only until one fails. */
static int64_t run_all(uint64_t from, int64_t *count, bool first,
                       figures *all) {
  int64_t failed = 0;
  for (int64_t i = 0; i < *count; i++) {
    uint64_t seed = from + (uint64_t)i;
    if (!history_run(&wd, seed, all) && ++failed <= FAILURES_SHOWN) {
      tell_failure(seed);
      fflush(stdout);
    }
    if (failed > 0 && first) *count = i + 1;
  }
  return failed;
}

static int usage(void) {
  fprintf(stderr, "usage: sim [SEED | [--from SEED] [--count N] [--first]]\n");
  return 2;
}

int main(int argc, char **argv) {
  uint64_t from = 1;
  int64_t count = COUNT, failed;
  bool first = false;
  figures all;
  for (int i = 1; i < argc; i++) {
    bool has_more = i + 1 < argc;
    if (strcmp(argv[i], "--from") == 0 && has_more) {
      from = strtoull(argv[++i], NULL, 10);
    } else if (strcmp(argv[i], "--count") == 0 && has_more) {
      count = strtoll(argv[++i], NULL, 10);
    } else if (strcmp(argv[i], "--first") == 0) {
      first = true;
    } else if (strspn(argv[i], "0123456789") == strlen(argv[i])) {
      from = strtoull(argv[i], NULL, 10);
      count = 1;
      wd.tracing = true;
    } else {
      return usage();
    }
  }
  signal(SIGABRT, on_abort);
  wd.peers = peers;
  wd.callers = callers;
  figures_init(&all);
  failed = run_all(from, &count, first, &all);
  if (!wd.tracing) figures_print(&all);
  world_destroy(&wd);
  printf("%" PRId64 " passed, %" PRId64 " failed\n", count - failed, failed);
  return failed == 0 ? 0 : 1;
}
