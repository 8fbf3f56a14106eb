/* loss: why a hold ended against its holder's will. */
#include "protocol/loss.h"

const struct el_loss_names el_losses[] = {
    [EL_LOSS_EXPIRED] = {"expired", "the lease was not proven alive in time"},
    [EL_LOSS_REVOKED] = {"revoked", "the lease ended in etcd"},
    [EL_LOSS_DELETED] = {"deleted", "the key was deleted"},
    [EL_LOSS_REPLACED] = {"replaced", "the key was overwritten"},
    [EL_LOSS_MAX_HOLD] = {"max_hold", "max_hold has passed"},
    [EL_LOSS_CLUSTER] = {"cluster_changed",
                         "another cluster answers, or an earlier state of this "
                         "one"},
    [EL_LOSS_CLOSED] = {"closed", "the client was closed"},
};
