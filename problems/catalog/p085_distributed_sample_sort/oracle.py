"""The expected outputs: its share of all values, sorted."""

import torch
from torch import Tensor

from problems.catalog.p085_distributed_sample_sort.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`sorted_shard`: the rank's balanced cut of all ranks' values in ascending order."""
    values = torch.cat([make_inputs(call.at_rank(rank))["local_shard"] for rank in range(call.world_size)])
    values = values.sort().values
    # The first N mod W ranks hold one element more, as tensor_split has it.
    return (values.tensor_split(call.world_size)[call.rank].clone(),)
