/* alarms: pushes a number to a wake at a given time. */
#include "lock/alarms.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/container_of.h"
#include "base/hash.h"

typedef struct alarm_entry {
  uint64_t id; /* the number to push; the hash key */
  el_alarms *alarms;
  el_wake *wake;
  el_timer timer;
  UT_hash_handle hh;
} alarm_entry;

struct el_alarms {
  el_timers *timers;
  alarm_entry *by_id; /* all alarms by |id|; a hash table */
};

static alarm_entry *find(el_alarms *alarms, uint64_t id) {
  alarm_entry *alarm = NULL;
  HASH_FIND(hh, alarms->by_id, &id, sizeof id, alarm);
  return alarm;
}

static void forget(alarm_entry *alarm) {
  el_timers_stop(alarm->alarms->timers, &alarm->timer);
  HASH_DEL(alarm->alarms->by_id, alarm);
  free(alarm);
}

static void on_due(el_timer *timer) {
  alarm_entry *alarm = EL_CONTAINER_OF(timer, alarm_entry, timer);
  alarm->wake->push(alarm->wake, alarm->id);
  forget(alarm);
}

void el_alarms_set(el_alarms *alarms, el_wake *wake, uint64_t id,
                   int64_t at_ms) {
  alarm_entry *alarm = find(alarms, id);
  if (alarm == NULL) {
    alarm = el_alloc(sizeof *alarm);
    alarm->id = id;
    alarm->alarms = alarms;
    alarm->timer.on_due = on_due;
    HASH_ADD(hh, alarms->by_id, id, sizeof alarm->id, alarm);
  }
  alarm->wake = wake;
  el_timers_set(alarms->timers, &alarm->timer, at_ms);
}

void el_alarms_cancel(el_alarms *alarms, uint64_t id) {
  alarm_entry *alarm = find(alarms, id);
  if (alarm != NULL) {
    forget(alarm);
  }
}

el_alarms *el_alarms_new(el_timers *timers) {
  el_alarms *alarms = el_alloc(sizeof *alarms);
  alarms->timers = timers;
  return alarms;
}

void el_alarms_free(el_alarms *alarms) {
  alarm_entry *alarm, *next;
  HASH_ITER(hh, alarms->by_id, alarm, next) { forget(alarm); }
  free(alarms);
}
