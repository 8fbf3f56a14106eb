/* endpoint: the address of one etcd member, as etcdctl accepts it. */
#include "net/endpoint.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

static const struct {
  const char *text;
  bool is_tls;
  bool is_unix;
} schemes[] = {
    {"http://", false, false}, {"https://", true, false},
    {"unix://", false, true},  {"unixs://", true, true},
    {"unix:", false, true},    {"unixs:", true, true},
};

/* The characters that a host name or an IPv6 zone may contain. Text with other characters is not
 * passed to a resolver. */
#define NAME_CHARACTERS \
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._"

/* The length limit of a Unix socket's path, without the NUL. */
enum { UNIX_PATH_MAX = sizeof((struct sockaddr_un *)0)->sun_path - 1 };

static bool is_port(const char *text) {
  size_t len = strlen(text);
  long port;
  if (len == 0 || len > 5 || strspn(text, "0123456789") != len) return false;
  port = strtol(text, NULL, 10);
  return port >= 1 && port <= 65535;
}

/* Returns whether |text| is an IPv6 address, with or without a zone ("fe80::1%eth0"). */
static bool is_ipv6(const char *text, size_t len) {
  char address[INET6_ADDRSTRLEN];
  struct in6_addr ip;
  const char *percent = memchr(text, '%', len);
  size_t address_len = percent != NULL ? (size_t)(percent - text) : len;
  if (address_len >= sizeof address) return false;
  memcpy(address, text, address_len);
  address[address_len] = '\0';
  if (inet_pton(AF_INET6, address, &ip) != 1) return false;
  return percent == NULL ||
         (address_len + 1 < len &&
          strspn(percent + 1, NAME_CHARACTERS) >= len - address_len - 1);
}

/* Returns whether |text| looks like a host name or an IPv4 address. A resolver and the header
 * :authority accept such a text. */
static bool is_host(const char *text, size_t len) {
  return len > 0 && strspn(text, NAME_CHARACTERS) >= len;
}

static bool is_host_or_ipv6(const char *text, size_t len) {
  if (len > 0 && text[0] == '[') {
    return len > 2 && text[len - 1] == ']' && is_ipv6(text + 1, len - 2);
  }
  return is_host(text, len);
}

/* Returns whether |text| is "host:port". This file checks it, because gRPC does not report a bad
 * target as an error: it writes a log line and creates a "lame" channel. */
static bool is_host_port(const char *text) {
  const char *colon = strrchr(text, ':');
  if (colon == NULL || !is_port(colon + 1)) return false;
  return is_host_or_ipv6(text, (size_t)(colon - text));
}

/* Sets to->target to |scheme| and |text|, with special characters escaped. The buffer is large
 * enough, because a path has at most UNIX_PATH_MAX bytes, and in "host:port" only the '%' of an
 * IPv6 zone is escaped. */
static void set_target(el_endpoint *to, const char *scheme, const char *text) {
  size_t n = (size_t)snprintf(to->target, sizeof to->target, "%s", scheme);
  for (; *text != '\0'; text++) {
    bool is_plain = strchr(NAME_CHARACTERS "/:[]", *text) != NULL;
    n += (size_t)snprintf(to->target + n, sizeof to->target - n,
                          is_plain ? "%c" : "%%%02X", (unsigned char)*text);
  }
}

/* gRPC's scheme "dns:" resolves names and accepts IPv4 addresses. An IPv6 address needs the scheme
 * "ipv6:" and its brackets. */
static void set_host_port(el_endpoint *to, const char *host_port) {
  snprintf(to->address, sizeof to->address, "%s", host_port);
  set_target(to, host_port[0] == '[' ? "ipv6:" : "dns:///", host_port);
}

static void set_path(el_endpoint *to, const char *path) {
  to->is_unix = true;
  snprintf(to->address, sizeof to->address, "unix:%s", path);
  set_target(to, "unix:", path);
}

/* If |text| is an IPv6 address without brackets or without a port, writes the corrected form to
 * |to|, which has |size| bytes. Returns false if |text| is something else. */
static bool correct_ipv6(char *to, size_t size, const char *text) {
  size_t len = strlen(text);
  const char *colon = strrchr(text, ':');
  if (len > 2 && text[0] == '[' && text[len - 1] == ']' &&
      is_ipv6(text + 1, len - 2)) {
    snprintf(to, size, "%s:2379", text);
  } else if (colon != NULL && is_port(colon + 1) &&
             is_ipv6(text, (size_t)(colon - text))) {
    snprintf(to, size, "[%.*s]%s", (int)(colon - text), text, colon);
  } else if (is_ipv6(text, len)) {
    snprintf(to, size, "[%s]:2379", text);
  } else {
    return false;
  }
  return true;
}

/* Returns whether |text| is a host and a number that is out of the range of ports. */
static bool has_bad_port(const char *text) {
  const char *colon = strrchr(text, ':');
  size_t len = colon != NULL ? (size_t)(colon - text) : 0;
  unsigned long long port;
  if (len == 0 || colon[1] == '\0' ||
      strspn(colon + 1, "0123456789") < strlen(colon + 1)) {
    return false;
  }
  port = strtoull(colon + 1, NULL, 10);
  return (port == 0 || port > 65535) && is_host_or_ipv6(text, len);
}

/* Fills |err| with the problem of |text|, and with a correction if one can be guessed. |rest| is
 * the part of |text| after the scheme. */
static void explain(el_error *err, const char *text, const char *rest,
                    bool is_unix) {
  size_t host_port_len = strcspn(rest, "/?#");
  char guess[120], corrected[sizeof guess + sizeof "[]:2379"];
  int scheme = (int)(rest - text);
  if (is_unix && strlen(rest) > UNIX_PATH_MAX) {
    el_error_set(
        err, EL_INVALID,
        "endpoint \"%.60s...\" has a path of %zu bytes, wanted at most "
        "%d; use a shorter path",
        text, strlen(rest), UNIX_PATH_MAX);
    return;
  }
  snprintf(guess, sizeof guess, "%.*s",
           host_port_len < 100 ? (int)host_port_len : 100, rest);
  if (rest[host_port_len] != '\0' && is_host_port(guess)) {
    el_error_set(err, EL_INVALID,
                 "endpoint \"%.100s\" has text after the port; write "
                 "\"%.*s%s\"",
                 text, scheme, text, guess);
  } else if (strlen(rest) >= EL_ENDPOINT_MAX - sizeof "unix:") {
    el_error_set(err, EL_INVALID,
                 "endpoint \"%.60s...\" has more than %d characters", text,
                 (int)(EL_ENDPOINT_MAX - sizeof "unix:"));
  } else if (*guess != '\0' && strlen(rest) <= 100 &&
             is_host(guess, strlen(guess)) &&
             strspn(guess, "0123456789") < strlen(guess)) {
    el_error_set(err, EL_INVALID,
                 "endpoint \"%.100s\" has no port; write \"%.*s%s:2379\"", text,
                 scheme, text, guess);
  } else if (has_bad_port(guess)) {
    el_error_set(err, EL_INVALID,
                 "endpoint \"%.100s\" has the port %s, wanted 1 to 65535", text,
                 strrchr(guess, ':') + 1);
  } else if (correct_ipv6(corrected, sizeof corrected, guess)) {
    el_error_set(err, EL_INVALID,
                 "endpoint \"%.100s\" is not [IPv6 address]:port; write "
                 "\"%.*s%s\"",
                 text, scheme, text, corrected);
  } else {
    el_error_set(err, EL_INVALID,
                 "endpoint \"%.100s\" is not [http[s]://]host:port or "
                 "unix:path",
                 text);
  }
}

bool el_endpoint_parse(el_endpoint *to, const char *text, bool is_tls_default,
                       el_error *err) {
  const char *rest = text;
  bool is_unix = false;
  memset(to, 0, sizeof *to);
  to->is_tls = is_tls_default;
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
    size_t len = strlen(schemes[i].text);
    if (strncmp(text, schemes[i].text, len) == 0) {
      rest = text + len;
      to->is_tls = schemes[i].is_tls;
      is_unix = schemes[i].is_unix;
      break;
    }
  }
  if (strlen(rest) >= EL_ENDPOINT_MAX - sizeof "unix:" ||
      (is_unix ? rest[0] == '\0' || strlen(rest) > UNIX_PATH_MAX
               : !is_host_port(rest))) {
    explain(err, text, rest, is_unix);
    return false;
  }
  if (is_unix) {
    set_path(to, rest);
  } else {
    set_host_port(to, rest);
  }
  return true;
}

/* Returns whether |address| ("host:port") is a loopback address. */
static bool is_loopback(const char *address) {
  char host[64];
  struct in_addr ip;
  size_t len = (size_t)(strrchr(address, ':') - address);
  if (len >= sizeof host) return false;
  memcpy(host, address, len);
  host[len] = '\0';
  return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
         (inet_pton(AF_INET, host, &ip) == 1 && ntohl(ip.s_addr) >> 24 == 127);
}

el_transport el_endpoint_transport(const el_endpoint *endpoint) {
  if (endpoint->is_tls) return EL_TRANSPORT_TLS;
  return endpoint->is_unix || is_loopback(endpoint->address)
             ? EL_TRANSPORT_LOCAL
             : EL_TRANSPORT_PLAINTEXT;
}
