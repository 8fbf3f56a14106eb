/* grpc_log: filters what gRPC writes to standard error. */
#include "net/grpc_log.h"

#include <grpc/support/log.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* Newer versions of gRPC log through Abseil. They lack gpr_set_log_function and GPR_ASSERT. */
#ifdef GPR_ASSERT

/* Writes only a failed assertion, because that ends the process. Other lines are dropped: they name
 * gRPC's source files but no client, so they cannot go to the log of a client. */
static void write_line(gpr_log_func_args *args) {
  if (strstr(args->message, "assertion failed") != NULL) {
    char message[LINE_MAX];
    el_escape(message, sizeof message, args->message);
    fprintf(stderr, "gRPC %s:%d: %s\n", args->file, args->line, message);
  }
}

void el_grpc_log_filter(void) {
  if (getenv("GRPC_VERBOSITY") == NULL) {
    gpr_set_log_function(write_line);
  }
}

#else

void el_grpc_log_filter(void) {}

#endif
