/* grpc_log: what gRPC writes to standard error. */
#include "net/grpc_log.h"

#include <grpc/support/log.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"

/* From gRPC's layers of security and TLS ("tsi"). */
static int is_about_tls(const char *file) {
  return strstr(file, "/tsi/") != NULL || strstr(file, "/security/") != NULL;
}

static void write_line(gpr_log_func_args *args) {
  if (!is_about_tls(args->file)) {
    char message[LINE_MAX];
    el_escape(message, sizeof message, args->message);
    fprintf(stderr, "gRPC %s:%d: %s\n", args->file, args->line, message);
  }
}

void el_grpc_log_tame(void) {
  if (getenv("GRPC_VERBOSITY") == NULL) {
    gpr_set_log_function(write_line);
  }
}
