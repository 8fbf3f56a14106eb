/* plain_locale: texts and numbers of the C library as in the "C" locale, whatever the program has
 * chosen: a message must not have a decimal comma, nor the system's words in another language and
 * encoding.
 */
#ifndef ETCDLOCK_BASE_PLAIN_LOCALE_H
#define ETCDLOCK_BASE_PLAIN_LOCALE_H

#include <locale.h>

/* el_plain_locale_enter gives this thread, and no other one, the "C" locale, and returns the one
 * that it had. @thread any */
locale_t el_plain_locale_enter(void);

/* el_plain_locale_leave gives this thread back the locale |before|. @thread any */
void el_plain_locale_leave(locale_t before);

/* el_errno_text returns what |code|, of errno, means. Valid until this thread calls it again.
 * @thread any */
const char *el_errno_text(int code);

#endif
