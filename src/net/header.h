/* header: which values an HTTP header can carry. Without gRPC, for those above net/. */
#ifndef ETCDLOCK_NET_HEADER_H
#define ETCDLOCK_NET_HEADER_H

#include <stddef.h>

/* el_header_illegal_at returns the position, from 1, of the first byte of |value| that
 * an HTTP header cannot carry at that place; 0: there is none. Legal are printable ASCII
 * characters, and spaces between them. gRPC core refuses a call with another value, and
 * writes that value to standard error: so each token is checked where it comes in.
 * @thread any */
size_t el_header_illegal_at(const char *value);

#endif
