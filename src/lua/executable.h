/* executable: the Lua modules that the executable of the command contains.
 *
 * .ci/embed.lua writes the C file with the data.
 */
#ifndef ETCDLOCK_LUA_EXECUTABLE_H
#define ETCDLOCK_LUA_EXECUTABLE_H

#include <stddef.h>

/* The bytecode of a Lua file. */
typedef struct el_embedded {
  const char *name; /* of the module; NULL after the last one */
  const char *bytes;
  size_t size;
} el_embedded;

extern const el_embedded el_embedded_command; /* bin/etcdlock */
extern const el_embedded el_embedded_modules[];

#endif
