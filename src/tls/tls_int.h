/* tls_int: what tls.c and explain.c share. */
#ifndef ETCDLOCK_TLS_TLS_INT_H
#define ETCDLOCK_TLS_TLS_INT_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tls/pem.h"
#include "tls/tls.h"

enum { EL_TLS_CA, EL_TLS_CERT, EL_TLS_KEY, EL_TLS_PEMS };

struct el_tls {
  atomic_int refs;
  bool own_cas;       /* false: the system's */
  char *server_name;  /* NULL: the endpoint's */
  pthread_mutex_t mu; /* guards the texts: the I/O thread writes them, a
                         diagnosis reads them; a leaf */
  el_pem pems[EL_TLS_PEMS];
};

/* A context for client connections, set up as gRPC does it, with what |tls|
 * holds now; the caller frees it. NULL if there is no memory.
 * @thread any @locks tls->mu */
SSL_CTX *el_tls_context(el_tls *tls);

/* The same without CAs and certificates: nobody is trusted. @thread any */
SSL_CTX *el_tls_bare_context(void);

#endif
