/* certificate: what a certificate says, in words for a message.
 *
 * What comes from a certificate is somebody else's text: it is escaped, and
 * cut off where it gets long.
 */
#ifndef ETCDLOCK_TLS_CERTIFICATE_H
#define ETCDLOCK_TLS_CERTIFICATE_H

#include <openssl/x509.h>
#include <stdbool.h>
#include <stddef.h>

enum { EL_CERTIFICATE_WORDS = 96 };

/* Is it out of force? Then |to|, of EL_CERTIFICATE_WORDS bytes, gets "expired
 * on <time>" or "is not valid before <time>". @thread any */
bool el_certificate_is_out(const X509 *cert, char *to);

/* Puts a subject or an issuer into |to|, as above. @thread any */
void el_certificate_name(const X509_NAME *name, char *to);

/* Puts the names and addresses that |cert| is for into |to|, as above.
 * @thread any */
void el_certificate_hosts(const X509 *cert, char *to);

#endif
