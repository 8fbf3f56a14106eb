/* text: text for messages: one line, the same in every locale. */
#include "base/text.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

/* ---- control characters ----
 *
 * The name of a lock may come from a user of the program. A raw newline in the name would forge a
 * line in a log, and terminals obey other control characters. ../lua/etcdlock/text.lua escapes the
 * same characters in messages that Lua makes. It also escapes invalid UTF-8, and characters that
 * change the writing direction. */

enum { ESCAPED_LEN = 4 }; /* \x0a: the escape of one byte */

/* Returns the length in bytes of the control character at |at|: 0 if there is none, 2 for U+0080 to
 * U+009F, otherwise 1. */
static size_t control_len(const unsigned char *at) {
  bool is_c1 = at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0;
  if (is_c1) return 2;
  return at[0] < ' ' || at[0] == 0x7f ? 1 : 0;
}

void el_escape(char *to, size_t size, const char *text) {
  const unsigned char *at = (const unsigned char *)text;
  while (*at != '\0') {
    size_t controls = control_len(at);
    size_t needed = controls > 0 ? controls * ESCAPED_LEN : 1;
    if (needed >= size) break;
    size -= needed;
    if (controls == 0) *to++ = (char)*at++;
    for (; controls > 0; controls--) {
      snprintf(to, ESCAPED_LEN + 1, "\\x%02x", *at++);
      to += ESCAPED_LEN;
    }
  }
  *to = '\0';
}

/* ---- width ---- */

static locale_t utf8_locale; /* 0: the C library has none */

static void open_utf8_locale(void) {
  utf8_locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

size_t el_text_columns(const char *text, size_t len) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  mbstate_t state = {0};
  size_t columns = 0;
  locale_t previous;
  pthread_once(&once, open_utf8_locale);
  previous = uselocale(utf8_locale);
  while (len > 0) {
    wchar_t character;
    size_t n = mbrtowc(&character, text, len, &state);
    int width = -1;
    if (n > len) { /* no valid character in this locale */
      memset(&state, 0, sizeof state);
      n = 1;
    } else {
      if (n == 0) n = 1; /* a NUL */
      width = wcwidth(character);
    }
    if (width < 0) width = ((unsigned char)*text & 0xc0) != 0x80;
    columns += (size_t)width;
    text += n;
    len -= n;
  }
  uselocale(previous);
  return columns;
}

/* ---- the C locale ---- */

locale_t el_c_locale_enter(void) {
  return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

void el_c_locale_leave(locale_t previous) {
  locale_t c_locale = uselocale(previous);
  if (c_locale != previous) freelocale(c_locale);
}

const char *el_errno_text(int code) {
  locale_t previous = el_c_locale_enter();
  const char *text = strerror(code);
  el_c_locale_leave(previous);
  return text;
}
