/* simulation world: virtual time, events and random numbers. */
#include "world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static struct {
  int64_t now_us;
  el_timers timers; /* |at_ms| is in microseconds */
  uint64_t dice;
  bool is_tracing;
  bool is_violated;
  char violation[400];
} world;

void world_begin(uint64_t seed) {
  world.now_us = 0;
  world.dice = seed * 0x9e3779b97f4a7c15u + 1;
  world.is_violated = false;
}

void world_end(void) {
  el_timers_destroy(&world.timers);
  world.timers = (el_timers){0};
}

int64_t world_now_us(void) { return world.now_us; }

void world_set(el_timer *timer, int64_t at_us) {
  el_timers_set(&world.timers, timer,
                at_us > world.now_us ? at_us : world.now_us);
}

void world_stop(el_timer *timer) { el_timers_stop(&world.timers, timer); }

bool world_next(void) {
  int64_t next_us = el_timers_next(&world.timers);
  if (next_us == INT64_MAX) return false;
  world.now_us = next_us;
  el_timers_run(&world.timers, next_us);
  return true;
}

/* splitmix64 (Steele 2014) */
static uint64_t draw(void) {
  uint64_t x = world.dice += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

int64_t world_random(int64_t low, int64_t high) {
  return low + (int64_t)(draw() % (uint64_t)(high - low + 1));
}

bool world_chance(int per_mille) { return world_random(0, 999) < per_mille; }

void world_set_tracing(bool is_on) { world.is_tracing = is_on; }

void world_trace(const char *format, ...) {
  va_list args;
  if (!world.is_tracing) return;
  printf("%10.3f ms  ", (double)world.now_us / WORLD_MS);
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  putchar('\n');
}

void world_violate(const char *promise, const char *format, ...) {
  va_list args;
  int n;
  if (world.is_violated) return;
  world.is_violated = true;
  n = snprintf(world.violation, sizeof world.violation, "%s: ", promise);
  va_start(args, format);
  vsnprintf(world.violation + n, sizeof world.violation - (size_t)n, format,
            args);
  va_end(args);
  world_trace("VIOLATION %s", world.violation);
}

const char *world_violation(void) {
  return world.is_violated ? world.violation : NULL;
}
