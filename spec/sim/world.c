/* sim world: virtual time. */
#include "world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { START_MS = 1000 /* 0 stands for "no time" in many fields */ };

/* ---- the queue: a binary heap of indexes into a pool ---- */

static bool is_before(const world *wd, int a, int b) {
  const world_event *x = &wd->pool[a], *y = &wd->pool[b];
  return x->at_ms != y->at_ms ? x->at_ms < y->at_ms : x->order < y->order;
}

static void sift_up(world *wd, int slot) {
  int it = wd->heap[slot];
  while (slot > 0 && is_before(wd, it, wd->heap[(slot - 1) / 2])) {
    wd->heap[slot] = wd->heap[(slot - 1) / 2];
    slot = (slot - 1) / 2;
  }
  wd->heap[slot] = it;
}

static void sift_down(world *wd, int slot) {
  int it = wd->heap[slot];
  for (;;) {
    int child = 2 * slot + 1;
    if (child >= wd->n_heap) break;
    if (child + 1 < wd->n_heap &&
        is_before(wd, wd->heap[child + 1], wd->heap[child])) {
      child++;
    }
    if (!is_before(wd, wd->heap[child], it)) break;
    wd->heap[slot] = wd->heap[child];
    slot = child;
  }
  wd->heap[slot] = it;
}

static void *resize(void *items, int n, size_t size) {
  items = realloc(items, (size_t)n * size);
  if (items == NULL) abort();
  return items;
}

static void make_room(world *wd) {
  int room = wd->room ? wd->room * 2 : 256;
  wd->pool = resize(wd->pool, room, sizeof *wd->pool);
  wd->heap = resize(wd->heap, room, sizeof *wd->heap);
  wd->unused = resize(wd->unused, room, sizeof *wd->unused);
  for (int i = room - 1; i >= wd->room; i--) {
    wd->unused[wd->n_unused++] = i;
  }
  wd->room = room;
}

static int take_first(world *wd) {
  int first = wd->heap[0];
  wd->heap[0] = wd->heap[--wd->n_heap];
  if (wd->n_heap > 0) sift_down(wd, 0);
  return first;
}

/* ---- begin and end of a history ---- */

void world_reset(world *wd, uint64_t seed) {
  wd->seed = seed;
  rng_seed(&wd->dice, seed);
  wd->now_ms = START_MS;
  for (int i = 0; i < NAMES_MAX; i++) {
    wd->names[i] = (name_record){0};
  }
  wd->writes = (write_record){0};
  wd->calm_from_ms = wd->quiet_from_ms = 0;
  wd->flying = 0;
  wd->last_id = 0;
  wd->n_joined = 0;
  wd->n_heap = wd->n_unused = 0;
  for (int i = wd->room - 1; i >= 0; i--) {
    wd->unused[wd->n_unused++] = i;
  }
  wd->order = 0;
  wd->n_events = 0;
  wd->failed = false;
  wd->violation[0] = '\0';
}

void world_destroy(world *wd) {
  store_destroy(&wd->store);
  free(wd->pool);
  free(wd->heap);
  free(wd->unused);
}

world_event *world_post(world *wd, int64_t at_ms, int peer, event_run run) {
  world_event *ev;
  int index;
  if (wd->n_unused == 0) make_room(wd);
  index = wd->unused[--wd->n_unused];
  ev = &wd->pool[index];
  ev->at_ms = at_ms > wd->now_ms ? at_ms : wd->now_ms;
  ev->order = ++wd->order;
  if (peer != NONE) ev->order += rng_next(&wd->dice) % 16;
  ev->run = run;
  ev->peer = peer;
  wd->heap[wd->n_heap++] = index;
  sift_up(wd, wd->n_heap - 1);
  return ev;
}

/* Tells whether the event |index| was put off, because its peer is stopped. A stopped peer gets all
 * its events when it continues, in a random order. */
static bool is_put_off(world *wd, int index) {
  world_event *ev = &wd->pool[index];
  const condition *cond;
  if (ev->peer == NONE) return false;
  cond = &wd->faults.peers[ev->peer];
  if (cond->stopped_until <= ev->at_ms) return false;
  ev->at_ms = cond->stopped_until + rng_between(&wd->dice, 0, 1);
  ev->order = rng_next(&wd->dice) >> 1;
  wd->heap[wd->n_heap++] = index;
  sift_up(wd, wd->n_heap - 1);
  return true;
}

bool world_next(world *wd) {
  world_event ev;
  int index;
  if (wd->n_heap == 0) return false;
  index = take_first(wd);
  if (is_put_off(wd, index)) return true;
  /* a copy, because the pool may move and its memory may be used again */
  ev = wd->pool[index];
  wd->unused[wd->n_unused++] = index;
  wd->now_ms = ev.at_ms;
  wd->n_events++;
  if (ev.peer != NONE && wd->faults.peers[ev.peer].crashed) return true;
  ev.run(wd, &ev);
  return true;
}

uint32_t world_new_id(world *wd) { return ++wd->last_id; }

/* ---- records of a history ---- */

void world_count(world *wd, fault what) { wd->figures->faults[what]++; }

bool world_chance(world *wd, fault what) {
  bool is_hit = rng_chance(&wd->dice, wd->faults.chance[what]);
  if (is_hit) world_count(wd, what);
  return is_hit;
}

void world_trace(const world *wd, const char *format, ...) {
  va_list args;
  if (!wd->tracing) return;
  printf("%8" PRId64 "  ", wd->now_ms);
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  printf("\n");
}

void world_violate(world *wd, const char *invariant, const char *format, ...) {
  va_list args;
  int n;
  if (wd->failed) return;
  wd->failed = true;
  n = snprintf(wd->violation, sizeof wd->violation, "%s: ", invariant);
  va_start(args, format);
  vsnprintf(wd->violation + n, sizeof wd->violation - (size_t)n, format, args);
  va_end(args);
  world_trace(wd, "VIOLATION %s", wd->violation);
}
