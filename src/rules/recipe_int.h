/* recipe_int: what recipe.c and recipe_write.c share. Not for others. @thread any
 * throughout. */
#ifndef ETCDLOCK_RULES_RECIPE_INT_H
#define ETCDLOCK_RULES_RECIPE_INT_H

#include "rules/recipe.h"

/* Adds to |ops| a look at each of our keys; returns how many. @thread any */
size_t el_recipe_read_own(const el_keys *keys, el_op *ops);

/* Adds for each of our keys that it is of |rev|, its create_revision; 0: that it isn't
 * there. Returns how many. @thread any */
size_t el_recipe_compare_own(const el_keys *keys, int64_t rev,
                             el_compare *compares);

/* Is the key that |own|, the answer to a look at one of ours, shows off its lease?
 * @thread any */
bool el_recipe_is_detached(const el_keys *keys, const el_op_result *own);

#endif
