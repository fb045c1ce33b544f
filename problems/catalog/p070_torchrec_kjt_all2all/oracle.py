"""The expected outputs: integers, copied."""

import torch
from torch import Tensor

from problems.catalog.p070_torchrec_kjt_all2all.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`lengths`, `values`, `stride`, `stride_per_rank`: the rank's features, each over the batches of all ranks."""
    owned = make_inputs(call)["key_splits"]
    first, count = sum(owned[: call.rank]), owned[call.rank]
    lengths, values = [], []
    for rank in range(call.world_size):
        sent = make_inputs(call.at_rank(rank))
        by_feature = sent["lengths"].view(sum(owned), -1)
        parts = sent["values"].split(by_feature.sum(dim=1).tolist())
        lengths.append(by_feature[first : first + count])
        values.append(parts[first : first + count])
    batches = torch.full((call.world_size,), call.dims["Bt"], device=call.device)
    in_order = [values[rank][feature] for feature in range(count) for rank in range(call.world_size)]
    return torch.cat(lengths, dim=1).flatten(), torch.cat(in_order), batches.sum(), batches
