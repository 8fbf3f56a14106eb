/* escape: texts of others in a message, which has to stay one line. */
#ifndef ETCDLOCK_BASE_ESCAPE_H
#define ETCDLOCK_BASE_ESCAPE_H

#include <stddef.h>

/* Writes |text| into |to|, at most |size| bytes with the NUL, with each byte of a
 * control character as \x0a and the like. An escape that does not fit is left out
 * as a whole, with all that follows it. @thread any */
void el_escape(char *to, size_t size, const char *text);

#endif
