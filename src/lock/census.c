/* census: asks who is behind our key in the queue. */
#include "lock/census.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/container_of.h"

struct el_census {
  el_request request;
  el_entry_driver *driver; /* NULL: forgotten */
  el_census_done done;
  void *arg;
  el_keys keys;
  int64_t rev; /* of our key */
};

static void conclude(const el_census *census, el_behind behind, bool detached) {
  census->done(census->arg, behind);
  if (behind == EL_BEHIND_LOST) {
    el_entry_driver_key_gone(census->driver, census->rev, detached);
  } else {
    census->driver->events->stepped(census->driver);
  }
}

static void on_answer(el_request *request, el_txn_answer *answer) {
  el_census *census = EL_CONTAINER_OF(request, el_census, request);
  el_behind behind =
      EL_BEHIND_UNKNOWN; /* without an answer: the client stops */
  bool detached = false;
  if (answer != NULL) {
    behind =
        el_recipe_read_census(&census->keys, census->rev, answer, &detached);
    el_txn_answer_free(answer);
  }
  if (census->driver != NULL) {
    conclude(census, behind, detached);
  }
  el_keys_destroy(&census->keys);
  free(census);
}

el_census *el_census_take(el_entry_driver *driver, el_census_done done,
                          void *arg) {
  el_census *census = el_alloc(sizeof *census);
  EL_UNCLEARED el_recipe recipe;
  census->request.done = on_answer;
  census->request.counted_as = offsetof(el_stats, looks);
  census->driver = driver;
  census->done = done;
  census->arg = arg;
  census->rev = driver->entry.rev;
  el_keys_copy(&census->keys, &driver->keys);
  el_recipe_build_census(&recipe, &census->keys);
  el_requests_send(driver->world->requests, &census->request, &recipe.txn);
  return census;
}

void el_census_forget(el_census *census) {
  if (census != NULL) census->driver = NULL;
}
