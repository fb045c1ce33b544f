"""Arguments of one rank for one call."""

from problems.families import seed_exchange
from problems.families.largest_values import with_largest
from problems.inputs.copied_values import copied
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`local_features` (F, h), `seed_inverse_ids` (T,), the two lists of W counts by relative rank, and no group."""
    return {
        "local_features": with_largest(
            call, "local_features", copied(call, "local_features", call.normal("local_features", ("F", "h")))
        ),
        "seed_inverse_ids": seed_exchange.seed_inverse_ids(call),
        "counts_sent": seed_exchange.counts_sent(call),
        "counts_received": seed_exchange.counts_received(call),
        "group": None,
    }
