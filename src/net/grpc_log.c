/* grpc_log: what gRPC writes to standard error. */
#include "net/grpc_log.h"

#include <grpc/support/log.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"

/* gRPC's lines name its own files and no client, so they can't go to a client's log: the
 * messages of calls say what is wrong. But a failed assertion ends the process. */
static void write_line(gpr_log_func_args *args) {
  if (strstr(args->message, "assertion failed") != NULL) {
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
