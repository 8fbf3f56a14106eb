/* L1 channel: the connection to one etcd member. */
#include "channel.h"

#include <grpc/grpc_security.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

enum { ENDPOINT_MAX = 255 + 6 }; /* a DNS name and a port */

struct el_channel {
  el_loop *loop;
  grpc_channel *grpc;
  char *endpoint;
};

/* ---- the endpoint's text ---- */

/* gRPC makes a "lame" channel of a bad target and logs; so check first. */
static bool is_host_port(const char *text) {
  const char *colon = strrchr(text, ':');
  char *end;
  long port;
  if (colon == NULL || colon == text) return false;
  if (text[0] == '[') {
    if (colon[-1] != ']') return false;
  } else if (memchr(text, ':', (size_t)(colon - text)) != NULL) {
    return false; /* an IPv6 address without its brackets */
  }
  if (strpbrk(text, "/?#@ ,") != NULL) return false;
  port = strtol(colon + 1, &end, 10);
  return end != colon + 1 && *end == '\0' && port >= 1 && port <= 65535;
}

static const char *skip_scheme(const char *endpoint) {
  static const char scheme[] = "http://";
  return strncmp(endpoint, scheme, sizeof scheme - 1) == 0
             ? endpoint + sizeof scheme - 1
             : endpoint;
}

bool el_channel_check(const char *endpoint, el_error *err) {
  const char *host_port = skip_scheme(endpoint);
  if (strlen(host_port) > ENDPOINT_MAX || !is_host_port(host_port)) {
    el_error_set(err, EL_INVALID,
                 "endpoint \"%.100s\" is not [http://]host:port", endpoint);
    return false;
  }
  return true;
}

/* gRPC's name for the target: dns: resolves names and takes IPv4 literals,
 * ipv6: wants the brackets. */
static void format_target(char *out, size_t size, const char *host_port) {
  snprintf(out, size, host_port[0] == '[' ? "ipv6:%s" : "dns:///%s", host_port);
}

/* ---- the channel ---- */

static grpc_channel *open_channel(const char *target) {
#define INT_ARG(name, number) \
  {.type = GRPC_ARG_INTEGER, .key = (char *)(name), .value.integer = (number)}
  grpc_arg list[] = {
      /* A lock service inside a cluster isn't behind a web proxy. */
      INT_ARG(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
      /* Clients of one process share no connection and no back-off. */
      INT_ARG(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
      /* gRPC's 20 s to connect and 120 s of back-off outlive every lease;
       * the "min reconnect backoff" is in truth the time to connect. */
      INT_ARG(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100),
      INT_ARG(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000),
      INT_ARG(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000),
      /* Find half-open connections. etcd punishes pings more frequent than
       * 5 s; without 0 here the probing of an idle watch stops after two. */
      INT_ARG(GRPC_ARG_KEEPALIVE_TIME_MS, 6000),
      INT_ARG(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 2000),
      INT_ARG(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0),
      INT_ARG(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
      /* A long queue's listing may pass gRPC's 4 MiB. */
      INT_ARG(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1),
  };
#undef INT_ARG
  grpc_channel_args args = {.num_args = sizeof list / sizeof *list,
                            .args = list};
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  grpc_channel *channel = grpc_channel_create(target, creds, &args);
  grpc_channel_credentials_release(creds);
  return channel;
}

el_channel *el_channel_new(el_loop *loop, const char *endpoint) {
  const char *host_port = skip_scheme(endpoint);
  char target[ENDPOINT_MAX + 16];
  el_channel *ch = el_alloc(sizeof *ch);
  format_target(target, sizeof target, host_port);
  ch->loop = loop;
  ch->endpoint = el_strndup(host_port, strlen(host_port));
  ch->grpc = open_channel(target);
  return ch;
}

void el_channel_free(el_channel *ch) {
  grpc_channel_destroy(ch->grpc);
  free(ch->endpoint);
  free(ch);
}

const char *el_channel_endpoint(const el_channel *ch) { return ch->endpoint; }

el_loop *el_channel_loop(const el_channel *ch) { return ch->loop; }

grpc_call *el_channel_call(el_channel *ch, const char *method,
                           gpr_timespec deadline) {
  grpc_slice name = grpc_slice_from_copied_string(method);
  grpc_call *call = grpc_channel_create_call(
      ch->grpc, NULL, GRPC_PROPAGATE_DEFAULTS, el_loop_queue(ch->loop), name,
      NULL, deadline, NULL);
  grpc_slice_unref(name);
  return call;
}
