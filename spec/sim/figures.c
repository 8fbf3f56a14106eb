/* sim figures: counts over all histories. */
#include "figures.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const fault_str[FAULTS] = {
    [FAULT_LOST] = "request lost",
    [FAULT_ANSWER_LOST] = "answer lost",
    [FAULT_LATE] = "applied late",
    [FAULT_ANSWER_LATE] = "answer late",
    [FAULT_REFUSED] = "refused",
    [FAULT_UNAVAILABLE] = "unavailable",
    [FAULT_NOSPACE] = "no space",
    [FAULT_DENIED] = "denied",
    [FAULT_NO_LEASES] = "no leases shown",
    [FAULT_NO_MORE] = "no more shown",
    [FAULT_KEEP_BREAK] = "keepalive broken",
    [FAULT_FAST_KEEP] = "renewed after its end",
    [FAULT_STALE_READ] = "stale read",
    [FAULT_WATCH_LATE] = "watch late",
    [FAULT_SWALLOWED] = "watch swallowed",
    [FAULT_REPLAYED] = "watch replayed",
    [FAULT_WATCH_BREAK] = "watch broken",
    [FAULT_PARTITION] = "partition",
    [FAULT_ELECTION] = "election",
    [FAULT_DEPOSED] = "deposed leader",
    [FAULT_LAGGING] = "member behind",
    [FAULT_AWAY] = "out of reach",
    [FAULT_RESTART] = "restart",
    [FAULT_STOP] = "peer stopped",
    [FAULT_CRASH] = "peer crashed",
    [FAULT_CLOSE] = "peer closed",
    [FAULT_ADMIN_DELETE] = "key deleted",
    [FAULT_ADMIN_WRITE] = "key overwritten",
    [FAULT_ADMIN_REVOKE] = "lease revoked",
};

static const char *const loss_str[FIGURE_LOSSES] = {
    "none",     "expired",  "revoked",         "deleted",
    "replaced", "max_hold", "cluster_changed", "closed",
};

void figures_init(figures *all) {
  memset(all, 0, sizeof *all);
  all->margin_min_ms = INT64_MAX;
  all->margin_max_ms = INT64_MIN;
}

void figures_record_margin(figures *all, int64_t margin_ms) {
  if (margin_ms < all->margin_min_ms) all->margin_min_ms = margin_ms;
  if (margin_ms > all->margin_max_ms) all->margin_max_ms = margin_ms;
}

void figures_record_max(int64_t *most, int64_t value) {
  if (value > *most) *most = value;
}

static void print_one(const char *what, int64_t n) {
  printf("  %-22s %12" PRId64 "\n", what, n);
}

static void print_table(const char *title, const char *const *names,
                        const int64_t *values, int n) {
  printf("%s\n", title);
  for (int i = 0; i < n; i++) {
    if (values[i] != 0) print_one(names[i], values[i]);
  }
}

void figures_print(const figures *all) {
  printf("histories\n");
  print_one("run", all->histories);
  print_one("events", all->events);
  print_one("virtual hours", all->virtual_ms / 3600000);
  printf("requests\n");
  print_one("made", all->requests);
  print_one("sent together", all->batches);
  print_one("watches kept", all->watches_kept);
  print_one("holders named", all->holders_named);
  print_one("handed over", all->handed_off);
  print_one("of lingering keys", all->retaken);
  print_one("contended", all->contended);
  print_one("downgraded", all->downgrades);
  print_one("granted", all->grants);
  print_one("beside another n", all->beside_other_n);
  print_one("of several names", all->several);
  print_one("of them again", all->repeats);
  print_one("user data put", all->data_puts);
  print_one("written", all->writes);
  print_one("write barred", all->writes_barred);
  print_one("by its order", all->writes_late);
  print_one("touched", all->touches);
  print_one("released", all->releases);
  print_one("locked", all->locked);
  print_one("timed out", all->timeouts);
  print_one("refused", all->refused);
  print_one("key lost", all->keys_lost);
  print_table("losses", loss_str, all->losses, FIGURE_LOSSES);
  print_table("faults", fault_str, all->faults, FAULTS);
  printf("holds\n");
  print_one("margin min, ms", all->grants ? all->margin_min_ms : 0);
  print_one("margin max, ms", all->grants ? all->margin_max_ms : 0);
  print_one("overlap max, ms", all->overlap_ms);
  print_one("after sabotage, ms", all->sabotaged_overlap_ms);
  print_one("keepalives max, /s", all->keepalives_per_s);
}
