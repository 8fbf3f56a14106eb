/* text: text for messages: one line, the same in every locale. */
#ifndef ETCDLOCK_BASE_TEXT_H
#define ETCDLOCK_BASE_TEXT_H

#include <locale.h>
#include <stddef.h>

/* ---- characters that must not be shown ---- */

/* el_escape writes |text| to |to|, at most |size| bytes including the NUL. It writes each byte of a
 * control character, of a separator of lines or paragraphs, of a character that sets the direction
 * of writing, and of invalid UTF-8 as an escape such as \x0a. The text is cut before the first
 * character or escape that does not fit.
 * @thread any */
void el_escape(char *to, size_t size, const char *text);

/* ---- width ---- */

/* el_text_columns returns the number of columns that |len| bytes of UTF-8 text take at a terminal,
 * whatever the program's locale. If the C library lacks the locale C.UTF-8, the program's locale
 * decides; in the locale "C" each character counts as one column. @thread any */
size_t el_text_columns(const char *text, size_t len);

/* ---- the C locale ----
 *
 * The program may have set any locale. But a message must contain neither a decimal comma, nor an
 * error text in another language or encoding. */

/* el_c_locale_enter sets the "C" locale for the calling thread only. Returns
 * the thread's previous locale, for el_c_locale_leave. @thread any */
locale_t el_c_locale_enter(void);

/* el_c_locale_leave sets the thread's locale to |previous|. @thread any */
void el_c_locale_leave(locale_t previous);

/* el_errno_text returns the untranslated text of |code|, a value of errno. It
 * is valid until this thread calls el_errno_text again. @thread any */
const char *el_errno_text(int code);

#endif
