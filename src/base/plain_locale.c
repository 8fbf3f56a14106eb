/* plain_locale: texts and numbers of the C library as in the "C" locale. */
#include "base/plain_locale.h"

#include <string.h>

locale_t el_plain_locale_enter(void) {
  return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

void el_plain_locale_leave(locale_t before) {
  locale_t plain = uselocale(before);
  if (plain != before) freelocale(plain);
}

const char *el_errno_text(int code) {
  locale_t before = el_plain_locale_enter();
  const char *text = strerror(code);
  el_plain_locale_leave(before);
  return text;
}
