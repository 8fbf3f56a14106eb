/* text: text for messages: one line, the same in every locale. */
#ifndef ETCDLOCK_BASE_TEXT_H
#define ETCDLOCK_BASE_TEXT_H

#include <locale.h>
#include <stddef.h>

/* ---- control characters ---- */

/* el_escape writes |text| to |to|, at most |size| bytes including the NUL. Each
 * byte of a control character becomes \x0a and the like. The text is cut before
 * the first character or escape that does not fit. @thread any */
void el_escape(char *to, size_t size, const char *text);

/* ---- width ---- */

/* el_text_columns returns the number of columns that the UTF-8 text |text|
 * takes at a terminal, in any locale. If the C library has no UTF-8 locale,
 * each character counts as one column. @thread any */
size_t el_text_columns(const char *text, size_t len);

/* ---- the C locale ----
 *
 * The program may have set any locale. A message must not contain a decimal
 * comma, nor a translated error text in another encoding. */

/* el_c_locale_enter sets the "C" locale for the calling thread only. Returns
 * the thread's previous locale, for el_c_locale_leave. @thread any */
locale_t el_c_locale_enter(void);

/* el_c_locale_leave sets the thread's locale to |previous|. @thread any */
void el_c_locale_leave(locale_t previous);

/* el_errno_text returns the untranslated text of |code|, a value of errno. It
 * is valid until this thread calls el_errno_text again. @thread any */
const char *el_errno_text(int code);

#endif
