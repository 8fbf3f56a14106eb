/* escape: what a control character becomes. A lock's name may come from a request: with
 * a raw newline it would write a line of its own into a log, and a terminal obeys some
 * of the others. ../lua/etcdlock/characters.lua escapes the same for what Lua says, and
 * also what is no UTF-8 and what changes the direction of writing. */
#include "base/escape.h"

#include <stdbool.h>
#include <stdio.h>

enum { ESCAPED_LEN = 4 }; /* of one byte */

/* How many bytes of a control character begin at |at|: 0, or 2 of U+0080 to U+009F. */
static size_t control_at(const unsigned char *at) {
  bool is_c1 = at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0;
  if (is_c1) return 2;
  return at[0] < ' ' || at[0] == 0x7f ? 1 : 0;
}

void el_escape(char *to, size_t size, const char *text) {
  const unsigned char *at = (const unsigned char *)text;
  while (*at != '\0') {
    size_t controls = control_at(at);
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
