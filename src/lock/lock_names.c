/* lock_names: the local queues of one client, by the names of their locks. */
#include "lock/lock_names.h"

#include "lock/local_queue_int.h"
#include "protocol/conflict_matrix.h"

/* Only a multi-lock has a queue for each slot. In other modes, the entries of one queue may have
 * different slots. */
static bool has_key(const el_local_queue *queue, const el_queue_key *where) {
  return queue->mode == where->mode && queue->permits == where->permits &&
         (queue->mode != EL_MODE_MULTI || queue->slot == where->slot);
}

/* Returns the first queue of the name |text|, which has |len| bytes; NULL: there is none. */
static el_queue_name *find(const el_queue_name *names, const void *text,
                           size_t len) {
  el_queue_name *first = NULL;
  HASH_FIND(hh, names, text, len, first);
  return first;
}

void el_lock_names_add(el_queue_name **names, el_bytes name,
                       el_queue_name *place, el_local_queue *queue) {
  el_queue_name *first = find(*names, name.data, name.len);
  place->queue = queue;
  if (first == NULL) {
    HASH_ADD_KEYPTR(hh, *names, name.data, name.len, place);
    return;
  }
  place->hh.key = name.data;
  place->hh.keylen = (unsigned)name.len;
  place->next = first->next;
  first->next = place;
}

void el_lock_names_remove(el_queue_name **names, el_queue_name *place) {
  el_queue_name *before = find(*names, place->hh.key, place->hh.keylen);
  el_queue_name *next = place->next;
  if (before != place) {
    while (before->next != place)
      before = before->next;
    before->next = next;
    return;
  }
  HASH_DEL(*names, place);
  if (next != NULL) {
    HASH_ADD_KEYPTR(hh, *names, next->hh.key, next->hh.keylen, next);
  }
}

el_local_queue *el_lock_names_find(const el_queue_name *names, el_bytes name,
                                   const el_queue_key *where) {
  const el_queue_name *place = find(names, name.data, name.len);
  while (place != NULL && !has_key(place->queue, where))
    place = place->next;
  return place != NULL ? place->queue : NULL;
}

bool el_lock_names_visit(const el_queue_name *names, const el_queue_name *place,
                         bool (*visit)(el_local_queue *queue)) {
  el_mode mode = (el_mode)place->queue->mode;
  const el_queue_name *other = find(names, place->hh.key, place->hh.keylen);
  for (; other != NULL; other = other->next) {
    if (other != place &&
        el_modes_conflict((el_mode)other->queue->mode, mode) &&
        visit(other->queue)) {
      return true;
    }
  }
  return false;
}
