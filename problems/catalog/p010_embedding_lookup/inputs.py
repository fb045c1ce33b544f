"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.inputs.copied_values import copied
from problems.inputs.regime_values import owner
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`indices` (M,) into a table of W * M rows, and `local_shard` (M, N), the rank's rows of it."""
    shard = copied(call, "local_shard", call.normal("local_shard", ("M", "N")))
    if call.setting("requests", None) == "edges":
        shard[:, [0, -1]] = 0
    requests = _requests(call)
    if call.setting("lists", None) == "nearly_sorted":
        requests = _nearly_sorted(call, requests)
    return {"indices": requests, "local_shard": shard}


def _nearly_sorted(call: Call, requests: Tensor) -> Tensor:
    """`requests` in ascending order, but for two that changed places; the least is now for its shard's first row.

    The two are in the second and third quarter of the list, so that neither its ends nor most samples show them.
    """
    quarter, middle, requests = len(requests) // 4, len(requests) // 2, requests.sort().values
    requests[0] -= requests[0] % call.dims["M"]
    places = call.integers("regime's places", (2,), low=0, high=max(1, quarter))
    places += torch.tensor([quarter, middle], device=call.device)
    requests[places] = requests[places.flip(0)]
    return requests


def _requests(call: Call) -> Tensor:
    """Row numbers that are neither evenly spread over owners nor over an owner's rows.

    W - 1 random cuts give every owner a share, another one for each asking rank. Within an owner the density falls
    with the power -2/3 of a row's distance from a popular row at a secret place, the same for all ranks.
    """
    rows = call.dims["M"]
    if call.setting("requests", None) == "edges":
        asked = call.integers("regime's owners", ("M",), low=0, high=call.world_size)
        return asked * rows + (rows - 1) * call.integers("regime's edges", ("M",), low=0, high=2)
    kind = call.setting("requests", None)
    if kind is not None and not (kind == "crowded" and call.rank == owner(call)):
        return (call.rank if kind == "own_rows" else owner(call)) * rows + _rows_of_one(call, kind)
    cuts = call.uniform("cuts", (call.world_size - 1,), dtype=torch.float32).sort().values
    asked = torch.searchsorted(cuts, call.uniform("owners", ("M",), dtype=torch.float32))
    popular = call.integers("popular", (call.world_size,), low=0, high=rows, shared=True)
    distance = call.uniform("distances", ("M",), dtype=torch.float32).pow_(3).mul_(rows).long()
    return asked * rows + (popular[asked] + distance) % rows


def _rows_of_one(call: Call, kind: str) -> Tensor:
    """Places within the shard of the one owner that is asked: any, or one and the same."""
    if kind == "one_row":
        return call.integers("regime's row", (1,), low=0, high=call.dims["M"], shared=True).repeat(call.dims["M"])
    return call.integers("regime's rows", ("M",), low=0, high=call.dims["M"])
