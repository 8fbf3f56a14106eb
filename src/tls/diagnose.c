/* diagnose: finds out why a connection fails, by connections of its own.
 *
 * The diagnosis connects, tries the client's protocol (TLS, or HTTP/2 without TLS), and looks at
 * the first bytes that the server sends. If these do not show the cause, it may connect again and
 * try the other protocol. It translates the result into a message, mostly with a remedy. It sends
 * nothing but the start of a protocol. */
#include "tls/tls_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

/* ---- connection ---- */

typedef struct examined_server {
  el_tls *tls; /* NULL: the client uses no TLS */
  const char *address;
  const char *path; /* of a Unix socket; NULL: |address| has a host */
  /* the parts of |address|; the host of a Unix socket is localhost, as for gRPC */
  char host[256], port[8];
  int64_t deadline_ms; /* on the clock of el_now_ms */
  int stop_fd;         /* if it is readable, the diagnosis ends */
  SSL_CTX *ctx;
  /* why the last attempt to connect failed; NULL: it succeeded, or try_address returned ETIME */
  const char *refusal;
  const char *reason; /* why the host name cannot be resolved; or NULL */
} examined_server;

/* The start of each message. The argument of its %s is examined_server.address. */
#define ETCD_AT "etcd %.80s: "

/* Waits until |events| occur on conn->fd. Returns false at |deadline_ms|, or if stop_fd is
 * readable. */
static bool wait_for(const el_diagnosis_connection *conn, short events,
                     int64_t deadline_ms) {
  struct pollfd entries[] = {{.fd = conn->fd, .events = events},
                             {.fd = conn->stop_fd, .events = POLLIN}};
  for (;;) {
    int64_t left = deadline_ms - el_now_ms();
    int rc = poll(entries, 2, left > 0 ? (int)left : 0);
    if (rc >= 0 || errno != EINTR) return rc > 0 && entries[1].revents == 0;
  }
}

/* Connects to |at|. Returns 0, the errno of the failure, or ETIME if wait_for returns false. */
static int connect_to_address(const el_diagnosis_connection *conn,
                              const struct addrinfo *at, int64_t deadline_ms) {
  int failure = 0;
  socklen_t size = sizeof failure;
  if (connect(conn->fd, at->ai_addr, at->ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_for(conn, POLLOUT, deadline_ms)) return ETIME;
  return getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &failure, &size) == 0
             ? failure
             : errno;
}

static void close_connection(el_diagnosis_connection *conn) {
  close(conn->fd);
  conn->fd = -1;
}

/* Opens conn->fd to |at|. Returns the same as connect_to_address; ETIME also if this process cannot
 * open a socket, which gRPC reports. */
static int try_address(el_diagnosis_connection *conn, const struct addrinfo *at,
                       int64_t deadline_ms) {
  int failure;
  conn->fd =
      socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (conn->fd < 0) return ETIME;
  failure = connect_to_address(conn, at, deadline_ms);
  if (failure != 0) close_connection(conn);
  return failure;
}

static int64_t count_addresses(const struct addrinfo *at) {
  int64_t n = 0;
  for (; at != NULL; at = at->ai_next) {
    n++;
  }
  return n;
}

static const char *unresolved(const examined_server *server) {
  return strchr(server->host, '%') != NULL
             ? "this machine has no such network interface"
             : "the host name cannot be resolved";
}

/* Returns the result of try_address for the Unix socket server->path. */
static int try_path(el_diagnosis_connection *conn,
                    const examined_server *server) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  struct addrinfo at = {.ai_family = AF_UNIX,
                        .ai_addr = (struct sockaddr *)&to,
                        .ai_addrlen = sizeof to};
  strncpy(to.sun_path, server->path, sizeof to.sun_path - 1);
  return try_address(conn, &at, server->deadline_ms);
}

/* Returns the result of try_address for the last address of server->host that was tried. If
 * server->host cannot be resolved, sets server->refusal and server->reason, and returns 0. */
static int try_host(el_diagnosis_connection *conn, examined_server *server) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                           .ai_flags = AI_NUMERICSERV};
  struct addrinfo *list;
  int failure = getaddrinfo(server->host, server->port, &hints, &list);
  if (failure != 0) {
    server->refusal = unresolved(server);
    server->reason =
        failure == EAI_SYSTEM ? el_errno_text(errno) : gai_strerror(failure);
    return 0;
  }
  for (struct addrinfo *at = list; at != NULL && conn->fd < 0;
       at = at->ai_next) {
    int64_t now = el_now_ms();
    failure = try_address(
        conn, at, now + (server->deadline_ms - now) / count_addresses(at));
  }
  freeaddrinfo(list);
  return failure;
}

/* Connects to the Unix socket, or to the first address of server->host that accepts a connection.
 * Returns false if none accepts before server->deadline_ms, or before server->stop_fd is readable;
 * then server->refusal may tell why. */
static bool open_connection(el_diagnosis_connection *conn,
                            examined_server *server) {
  int failure;
  memset(conn, 0, sizeof *conn);
  conn->fd = -1;
  conn->stop_fd = server->stop_fd;
  conn->deadline_ms = server->deadline_ms;
  server->refusal = NULL;
  failure =
      server->path != NULL ? try_path(conn, server) : try_host(conn, server);
  if (server->path != NULL && failure == ENOENT) {
    server->refusal = "the Unix socket does not exist";
  } else if (failure != 0 && failure != ETIME) {
    server->refusal = el_errno_text(failure);
  }
  return conn->fd >= 0;
}

/* Sends |bytes|. An error is ignored, because the next attempt to receive shows it. */
static void send_bytes(el_diagnosis_connection *conn, const void *bytes,
                       size_t len) {
  const char *from = bytes;
  while (len > 0 && wait_for(conn, POLLOUT, conn->deadline_ms)) {
    /* MSG_NOSIGNAL: if the server has closed the connection, send must not raise SIGPIPE, which may
     * not be blocked. */
    ssize_t n = send(conn->fd, from, len, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return;
    if (n > 0) {
      from += n;
      len -= (size_t)n;
    }
  }
}

/* Keeps the first bytes, for el_diagnosis_detect_protocol. */
static void keep_first_bytes(el_diagnosis_connection *conn, const void *bytes,
                             size_t len) {
  size_t room = sizeof conn->first - conn->n_first;
  size_t n = len < room ? len : room;
  memcpy(conn->first + conn->n_first, bytes, n);
  conn->n_first += n;
}

/* Receives up to |size| bytes and returns their number. Returns 0 if the connection or the time has
 * ended. */
static size_t receive(el_diagnosis_connection *conn, void *to, size_t size) {
  while (wait_for(conn, POLLIN, conn->deadline_ms)) {
    ssize_t n = recv(conn->fd, to, size, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n <= 0) return 0;
    keep_first_bytes(conn, to, (size_t)n);
    return (size_t)n;
  }
  return 0;
}

/* TLS begins with a record of any type (20 to 24), version 3.x (RFC 8446, 5.1). HTTP/2 begins with
 * the server's SETTINGS frame (type 4) on stream 0 (RFC 9113, 3.4). */
el_diagnosis_protocol
el_diagnosis_detect_protocol(const el_diagnosis_connection *conn) {
  static const uint8_t stream_0[4];
  const uint8_t *b = conn->first;
  if (conn->n_first == 0) return EL_DIAGNOSIS_NOTHING;
  if (conn->n_first >= 2 && b[0] >= 20 && b[0] <= 24 && b[1] == 3) {
    return EL_DIAGNOSIS_TLS;
  }
  if (conn->n_first == EL_DIAGNOSIS_FIRST_LEN && b[0] == 0 && b[3] == 4 &&
      memcmp(b + 5, stream_0, sizeof stream_0) == 0) {
    return EL_DIAGNOSIS_HTTP2;
  }
  return EL_DIAGNOSIS_OTHER;
}

/* ---- handshake ----
 *
 * OpenSSL reads from and writes to memory buffers. So the diagnosis keeps the first bytes of the
 * server, whatever OpenSSL does with them. The server's certificate is verified. */

typedef struct session {
  SSL *ssl;
  el_diagnosis_connection *conn;
  el_diagnosis_handshake *hs;
} session;

/* Records the first problem with a certificate. Returns |ok|, so that OpenSSL's result does not
 * change. */
static int on_verified(int ok, X509_STORE_CTX *store) {
  const SSL *ssl =
      X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
  el_diagnosis_handshake *hs = SSL_get_app_data(ssl);
  const X509 *cert = X509_STORE_CTX_get_current_cert(store);
  if (ok || hs->verify_error != X509_V_OK) return ok;
  hs->verify_error = X509_STORE_CTX_get_error(store);
  hs->verify_depth = X509_STORE_CTX_get_error_depth(store);
  if (cert != NULL) {
    el_certificate_format_name(X509_get_subject_name(cert), hs->subject);
    el_certificate_format_name(X509_get_issuer_name(cert), hs->issuer);
    el_certificate_format_hosts(cert, hs->hosts);
    el_certificate_is_outside_validity(cert, hs->validity);
  }
  return ok;
}

/* OpenSSL calls this function when the server asks for a client certificate. */
static int on_cert_requested(SSL *ssl, void *arg) {
  el_diagnosis_handshake *hs = arg;
  (void)ssl;
  hs->is_cert_requested = true;
  return 1;
}

/* Records why OpenSSL failed. OpenSSL reports an alert of the server as SSL_AD_REASON_OFFSET plus
 * the alert. */
static void record_failure(el_diagnosis_handshake *hs) {
  unsigned long code = ERR_peek_error();
  int reason = ERR_GET_REASON(code);
  if (ERR_GET_LIB(code) != ERR_LIB_SSL) return;
  if (reason >= SSL_AD_REASON_OFFSET) {
    hs->alert = reason - SSL_AD_REASON_OFFSET;
  } else if (hs->verify_error == X509_V_OK) {
    hs->failure = reason;
  }
}

/* Sends what OpenSSL has written. */
static void flush(const session *s) {
  char bytes[4096];
  int n;
  while ((n = BIO_read(SSL_get_wbio(s->ssl), bytes, sizeof bytes)) > 0) {
    send_bytes(s->conn, bytes, (size_t)n);
  }
}

/* Calls |step|, and receives more bytes for it, until |step| succeeds or fails. Returns true if it
 * has succeeded. Returns false if it has failed, or if the connection or the time has ended. */
static bool run_step(const session *s, int (*step)(SSL *ssl)) {
  char bytes[4096];
  for (;;) {
    size_t n;
    int rc;
    ERR_clear_error(); /* SSL_get_error also looks at errors from before */
    rc = step(s->ssl);
    flush(s);
    if (rc > 0) return true;
    if (SSL_get_error(s->ssl, rc) != SSL_ERROR_WANT_READ) {
      record_failure(s->hs);
      return false;
    }
    n = receive(s->conn, bytes, sizeof bytes);
    if (n == 0) return false;
    BIO_write(SSL_get_rbio(s->ssl), bytes, (int)n);
  }
}

static int read_once(SSL *ssl) {
  char byte;
  return SSL_read(ssl, &byte, 1);
}

/* Performs the handshake and reads once. With TLS 1.3, the client's handshake ends before the
 * server has checked the client certificate. So the first thing to read may be an alert that
 * rejects the certificate. If the server accepts it, the first thing to read is HTTP/2's SETTINGS
 * frame. */
static void perform(const session *s) {
  const unsigned char *alpn;
  unsigned len;
  s->hs->is_done = run_step(s, SSL_do_handshake);
  if (!s->hs->is_done) return;
  SSL_get0_alpn_selected(s->ssl, &alpn, &len);
  s->hs->has_h2 = len == 2 && memcmp(alpn, "h2", 2) == 0;
  if (run_step(s, read_once)) {
    SSL_shutdown(s->ssl);
    flush(s);
  }
}

static bool is_address(const char *name) {
  unsigned char address[16];
  return inet_pton(AF_INET, name, address) == 1 ||
         inet_pton(AF_INET6, name, address) == 1;
}

/* Sets |name| as the name that the certificate must contain. A host name is also sent to the server
 * (SNI). */
static bool set_name(SSL *ssl, const char *name) {
  X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
  if (is_address(name)) {
    return X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1;
  }
  X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return X509_VERIFY_PARAM_set1_host(param, name, 0) == 1 &&
         SSL_set_tlsext_host_name(ssl, name) == 1;
}

static bool set_buffers(SSL *ssl) {
  BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
  if (in == NULL || out == NULL) {
    BIO_free(in);
    BIO_free(out);
    return false;
  }
  SSL_set_bio(ssl, in, out);
  return true;
}

bool el_diagnosis_run_handshake(el_diagnosis_handshake *hs, SSL_CTX *ctx,
                                const char *name,
                                el_diagnosis_connection *conn) {
  session s = {.ssl = SSL_new(ctx), .conn = conn, .hs = hs};
  bool ok = s.ssl != NULL && set_buffers(s.ssl) && set_name(s.ssl, name);
  memset(hs, 0, sizeof *hs);
  if (ok) {
    SSL_set_app_data(s.ssl, hs);
    SSL_set_verify(s.ssl, SSL_VERIFY_PEER, on_verified);
    SSL_set_cert_cb(s.ssl, on_cert_requested, hs);
    SSL_set_connect_state(s.ssl);
    perform(&s);
  }
  SSL_free(s.ssl);
  ERR_clear_error();
  return ok;
}

/* ---- messages ---- */

static void set_unknown_ca(const examined_server *server,
                           const el_diagnosis_handshake *hs, el_error *err) {
  const char *cas = server->tls->pems[EL_TLS_CA].label;
  const char *hint = server->tls->has_own_cas ? "" : "; set cacert";
  if (hs->verify_error == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT) {
    el_error_set(err, EL_UNAVAILABLE,
                 ETCD_AT
                 "the server's certificate is self-signed, and not in %s%s",
                 server->address, cas, hint);
  } else {
    el_error_set(
        err, EL_UNAVAILABLE,
        ETCD_AT
        "the server's certificate is signed by a CA that is not in %s%s "
        "(the CA is %s)",
        server->address, cas, hint, hs->issuer);
  }
}

static void set_outside_validity(const examined_server *server,
                                 const el_diagnosis_handshake *hs,
                                 el_error *err) {
  const char *hint = hs->verify_error == X509_V_ERR_CERT_HAS_EXPIRED
                         ? "renew the certificate"
                         : "check both clocks";
  if (hs->verify_depth == 0) {
    el_error_set(err, EL_UNAVAILABLE, ETCD_AT "the server's certificate %s; %s",
                 server->address, hs->validity, hint);
  } else {
    el_error_set(err, EL_UNAVAILABLE,
                 ETCD_AT "a CA certificate in the server's chain %s; %s (%s)",
                 server->address, hs->validity, hint, hs->subject);
  }
}

static const char *expected_name(const examined_server *server) {
  const char *name =
      server->tls != NULL ? el_tls_server_name(server->tls) : NULL;
  return name != NULL ? name : server->host;
}

static void set_other_name(const examined_server *server,
                           const el_diagnosis_handshake *hs, el_error *err) {
  const char *override = el_tls_server_name(server->tls);
  el_error_set(err, EL_UNAVAILABLE,
               ETCD_AT "the server's certificate is for %s, not for %s%.80s; "
                       "set server_name to a name in the certificate",
               server->address, hs->hosts,
               override != NULL ? "server_name " : "", expected_name(server));
}

static void set_verify_error(const examined_server *server,
                             const el_diagnosis_handshake *hs, el_error *err) {
  switch (hs->verify_error) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE: /* a CA of the same name */
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      set_unknown_ca(server, hs, err);
      break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      set_outside_validity(server, hs, err);
      break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      set_other_name(server, hs, err);
      break;
    case X509_V_ERR_INVALID_PURPOSE:
      el_error_set(err, EL_UNAVAILABLE,
                   ETCD_AT "the server's certificate is not made for a server "
                           "(extendedKeyUsage lacks serverAuth)",
                   server->address);
      break;
    default:
      el_error_set(err, EL_UNAVAILABLE,
                   ETCD_AT "the server's certificate cannot be trusted: %s",
                   server->address,
                   X509_verify_cert_error_string(hs->verify_error));
  }
}

/* The server's alert does not tell what is wrong with the client certificate: Go 1.19 sends "bad
 * certificate" for each problem. So this function checks the certificate itself. */
static void set_cert_rejected(const examined_server *server,
                              const el_diagnosis_handshake *hs, el_error *err) {
  X509 *own = SSL_CTX_get0_certificate(server->ctx);
  const char *label = server->tls->pems[EL_TLS_CERT].label;
  char validity[EL_CERTIFICATE_TEXT_SIZE];
  if (own == NULL) {
    el_error_set(err, EL_UNAUTHENTICATED,
                 ETCD_AT
                 "the server requires a client certificate; set cert and key",
                 server->address);
  } else if (el_certificate_is_outside_validity(own, validity)) {
    el_error_set(err, EL_UNAUTHENTICATED,
                 ETCD_AT
                 "the server rejects the client certificate in %s, which %s",
                 server->address, label, validity);
  } else if (X509_check_purpose(own, X509_PURPOSE_SSL_CLIENT, 0) != 1) {
    el_error_set(
        err, EL_UNAUTHENTICATED,
        ETCD_AT "the server rejects the client certificate in %s, which is not "
                "made for a client (extendedKeyUsage lacks clientAuth)",
        server->address, label);
  } else {
    el_error_set(err, EL_UNAUTHENTICATED,
                 ETCD_AT
                 "the server rejects the client certificate in %s (%s); "
                 "use one that a CA in etcd's --trusted-ca-file signed",
                 server->address, label, SSL_alert_desc_string_long(hs->alert));
  }
}

/* Returns true, so that its callers can return the result. */
static bool set_not_etcd(const examined_server *server, el_error *err) {
  el_error_set(err, EL_PROTOCOL,
               ETCD_AT "the server does not speak HTTP/2; the endpoint is not "
                       "an etcd v3 client port",
               server->address);
  return true;
}

/* gRPC requires ALPN, so no option could make the connection work. Returns true, so that its
 * callers can return the result. */
static bool set_no_alpn(const examined_server *server, el_error *err) {
  el_error_set(err, EL_PROTOCOL,
               ETCD_AT
               "the TLS handshake does not select HTTP/2 (ALPN \"h2\"); "
               "give etcd's client port, or enable h2 in the proxy that "
               "terminates TLS",
               server->address);
  return true;
}

/* Returns true, so that its callers can return the result. */
static bool set_nothing_in_common(const examined_server *server,
                                  el_error *err) {
  el_error_set(
      err, EL_PROTOCOL,
      ETCD_AT
      "the server and the client have no TLS version, cipher and curve in "
      "common: TLS 1.2 or newer with AES-GCM and P-256 is needed",
      server->address);
  return true;
}

/* Fills |err| and returns true. Returns false, without an error, for an alert that may be
 * temporary. */
static bool set_alert(const examined_server *server,
                      const el_diagnosis_handshake *hs, el_error *err) {
  switch (hs->alert) {
    case SSL_AD_PROTOCOL_VERSION:
    case SSL_AD_INSUFFICIENT_SECURITY:
      return set_nothing_in_common(server, err);
    case SSL_AD_NO_APPLICATION_PROTOCOL:
      return set_no_alpn(server, err);
    case SSL_AD_HANDSHAKE_FAILURE:
      /* Up to TLS 1.2, an OpenSSL server sends this alert if the client certificate is missing. */
      if (!hs->is_cert_requested) return set_nothing_in_common(server, err);
      break;
    case SSL_AD_UNRECOGNIZED_NAME:
      el_error_set(err, EL_UNAVAILABLE,
                   ETCD_AT
                   "the server has no certificate for %.80s; set server_name",
                   server->address, expected_name(server));
      return true;
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_CERTIFICATE_REQUIRED:
      break;
    default:
      return false;
  }
  set_cert_rejected(server, hs, err);
  return true;
}

static bool set_failure(const examined_server *server,
                        const el_diagnosis_handshake *hs, el_error *err) {
  const char *reason =
      ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, hs->failure));
  if (hs->failure == SSL_R_UNSUPPORTED_PROTOCOL ||
      hs->failure == SSL_R_WRONG_SSL_VERSION) {
    return set_nothing_in_common(server, err);
  }
  el_error_set(err, EL_PROTOCOL, ETCD_AT "the TLS handshake fails: %s",
               server->address, reason != NULL ? reason : "no reason given");
  return true;
}

/* ---- diagnoses ---- */

/* Connects and starts a TLS handshake. Returns the protocol of the server's answer. */
static el_diagnosis_protocol try_tls(examined_server *server,
                                     el_diagnosis_handshake *hs) {
  el_diagnosis_connection conn;
  memset(hs, 0, sizeof *hs);
  if (!open_connection(&conn, server)) return EL_DIAGNOSIS_NOTHING;
  el_diagnosis_run_handshake(hs, server->ctx, expected_name(server), &conn);
  close_connection(&conn);
  return el_diagnosis_detect_protocol(&conn);
}

/* Connects and starts HTTP/2 without TLS. Returns the protocol of the server's answer. */
static el_diagnosis_protocol try_plain(examined_server *server) {
  static const char start[] =
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" /* preface */
      "\0\0\0\4\0\0\0\0"; /* SETTINGS, with the NUL as the last byte */
  char bytes[64];
  el_diagnosis_connection conn;
  if (!open_connection(&conn, server)) return EL_DIAGNOSIS_NOTHING;
  send_bytes(&conn, start, sizeof start);
  while (conn.n_first < EL_DIAGNOSIS_FIRST_LEN &&
         receive(&conn, bytes, sizeof bytes) > 0) {
  }
  close_connection(&conn);
  return el_diagnosis_detect_protocol(&conn);
}

/* Fills |err| with |problem| and the endpoint that is right: one with TLS if |is_tls|. Returns
 * true, so that its callers can return the result. */
static bool set_other_scheme(const examined_server *server, const char *problem,
                             bool is_tls, el_error *err) {
  static const char *const schemes[2][2] = {{"http://", "https://"},
                                            {"unix:", "unixs:"}};
  el_error_set(err, EL_PROTOCOL, ETCD_AT "%s %s%.80s", server->address, problem,
               schemes[server->path != NULL][is_tls],
               server->path != NULL ? server->path : server->address);
  return true;
}

/* Reports why no connection was possible, if the reason is known. */
static bool set_refusal(const examined_server *server, el_error *err) {
  if (server->refusal == NULL) return false;
  el_error_set(err, EL_UNAVAILABLE, ETCD_AT "%s%s%s", server->address,
               server->refusal, server->reason != NULL ? ": " : "",
               server->reason != NULL ? server->reason : "");
  err->is_retriable = true;
  return true;
}

/* The diagnosis of a client that uses TLS. An etcd without TLS only closes the connection when a
 * TLS handshake begins, but servers with other problems do the same. So the diagnosis also tries
 * HTTP/2 without TLS. */
static bool diagnose_tls(examined_server *server, el_error *err) {
  el_diagnosis_handshake hs;
  el_diagnosis_protocol protocol = try_tls(server, &hs);
  if (server->refusal != NULL || (protocol == EL_DIAGNOSIS_NOTHING &&
                                  try_plain(server) != EL_DIAGNOSIS_HTTP2)) {
    return set_refusal(server, err);
  }
  if (protocol != EL_DIAGNOSIS_TLS) {
    return set_other_scheme(
        server, "the server does not speak TLS; to connect without TLS, write",
        false, err);
  }
  if (hs.verify_error != X509_V_OK) {
    set_verify_error(server, &hs, err);
    return true;
  }
  if (hs.alert != 0) return set_alert(server, &hs, err);
  if (hs.failure != 0) return set_failure(server, &hs, err);
  return hs.is_done && !hs.has_h2 && set_no_alpn(server, err);
}

/* The diagnosis of a client that uses no TLS. An etcd with TLS only closes the connection when
 * HTTP/2 without TLS begins. So the diagnosis also tries a TLS handshake. */
static bool diagnose_plain(examined_server *server, el_error *err) {
  el_diagnosis_handshake hs;
  el_diagnosis_protocol protocol = try_plain(server);
  if (protocol == EL_DIAGNOSIS_HTTP2) return false;
  if (server->refusal != NULL || (protocol != EL_DIAGNOSIS_TLS &&
                                  try_tls(server, &hs) != EL_DIAGNOSIS_TLS)) {
    return protocol == EL_DIAGNOSIS_OTHER ? set_not_etcd(server, err)
                                          : set_refusal(server, err);
  }
  return set_other_scheme(server, "the server requires TLS; write", true, err);
}

/* Splits server->address into server->host and server->port. Returns false if it is malformed. */
static bool split_address(examined_server *server) {
  const char *from = server->address, *colon = strrchr(from, ':');
  const char *end = colon;
  if (colon == NULL) return false;
  if (*from == '[') {
    from++;
    end--; /* the closing bracket */
  }
  if (end <= from || (size_t)(end - from) >= sizeof server->host ||
      strlen(colon + 1) >= sizeof server->port) {
    return false;
  }
  memcpy(server->host, from, (size_t)(end - from));
  strcpy(server->port, colon + 1);
  return true;
}

bool el_tls_diagnose(el_tls *tls, const char *address, bool is_unix,
                     int timeout_ms, int stop_fd, el_error *err) {
  examined_server server = {.tls = tls, .address = address, .stop_fd = stop_fd};
  bool has_cause;
  if (is_unix) {
    server.path = address + strlen("unix:");
    strcpy(server.host, "localhost");
  } else if (!split_address(&server)) {
    return false;
  }
  server.ctx = tls != NULL ? el_tls_context(tls) : el_tls_bare_context();
  if (server.ctx == NULL) return false;
  /* The time to prepare the certificates does not count. */
  server.deadline_ms = el_now_ms() + timeout_ms;
  has_cause =
      tls != NULL ? diagnose_tls(&server, err) : diagnose_plain(&server, err);
  SSL_CTX_free(server.ctx);
  return has_cause;
}
