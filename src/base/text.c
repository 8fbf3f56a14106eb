/* text: text for messages: one line, the same in every locale. */
#include "base/text.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

/* ---- characters that must not be shown ----
 *
 * The name of a lock may come from a user of the program. A raw newline in the name would forge a
 * line in a log, and terminals obey other control characters. lua/etcdlock/text.lua escapes the
 * same characters in messages that Lua makes. */

enum { ESCAPED_LEN = 4 }; /* \x0a: the escape of one byte */

/* Returns the number of bytes of the UTF-8 character at |at|, and sets |*code|. Returns 0 if the
 * bytes are no valid UTF-8. */
static size_t decode(const unsigned char *at, uint32_t *code) {
  /* the smallest character of each length */
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t len = at[0] < 0x80   ? 1
               : at[0] < 0xc0 ? 0
               : at[0] < 0xe0 ? 2
               : at[0] < 0xf0 ? 3
               : at[0] < 0xf8 ? 4
                              : 0;
  if (len < 2) {
    *code = at[0];
    return len;
  }
  *code = at[0] & (0xffU >> (len + 1));
  for (size_t i = 1; i < len; i++) {
    if ((at[i] & 0xc0) != 0x80) return 0;
    *code = *code << 6 | (at[i] & 0x3f);
  }
  if (*code < least[len] || *code > 0x10ffff ||
      (*code >= 0xd800 && *code < 0xe000)) {
    return 0;
  }
  return len;
}

/* Tells whether |code| is a control character, a separator of lines or paragraphs, or a character
 * that sets the direction of writing. */
static bool is_control(uint32_t code) {
  return code < ' ' || (code >= 0x7f && code < 0xa0) || code == 0x61c ||
         code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

void el_escape(char *to, size_t size, const char *text) {
  const unsigned char *at = (const unsigned char *)text;
  while (*at != '\0') {
    uint32_t code;
    size_t len = decode(at, &code);
    bool is_shown = len > 0 && !is_control(code);
    if (len == 0) len = 1;
    if ((is_shown ? len : len * ESCAPED_LEN) >= size) break;
    for (; len > 0; len--, at++) {
      if (is_shown) {
        *to++ = (char)*at;
        size--;
      } else {
        snprintf(to, ESCAPED_LEN + 1, "\\x%02x", *at);
        to += ESCAPED_LEN;
        size -= ESCAPED_LEN;
      }
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
