/* loss: why a hold ended against its holder's will. */
#ifndef ETCDLOCK_PROTOCOL_LOSS_H
#define ETCDLOCK_PROTOCOL_LOSS_H

/* el_loss is the reason of a loss. */
typedef enum el_loss {
  EL_LOSS_NONE,
  /* the lease was not proven alive before the hold deadline */
  EL_LOSS_EXPIRED,
  EL_LOSS_REVOKED, /* the lease is gone */
  EL_LOSS_DELETED, /* the key was deleted before the hold was released */
  /* another client wrote the key and detached it from our lease */
  EL_LOSS_REPLACED,
  EL_LOSS_MAX_HOLD, /* max_hold has passed */
  /* another cluster answers, or an earlier state of this one */
  EL_LOSS_CLUSTER,
  EL_LOSS_CLOSED /* the client was closed */
} el_loss;

/* el_losses holds the name of each reason in the API, and its text for messages. */
extern const struct el_loss_names { const char *name, *text; } el_losses[];

#endif
