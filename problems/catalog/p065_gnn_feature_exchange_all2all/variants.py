"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import exchange
from problems.families.seed_exchange import runs_by_ends


def _order() -> list[int]:
    """The other ranks by relative number, this one first."""
    world_size = dist.get_world_size()
    return [(dist.get_rank() + i) % world_size for i in range(world_size)]


def _exchange(pieces: list[Tensor], counts: list[int], order: list[int]) -> Tensor:
    """Piece i goes to rank order[i], from which counts[i] rows come."""
    received = [pieces[0].new_empty((rows, *pieces[0].shape[1:])) for rows in counts]
    received[0].copy_(pieces[0])
    exchange(zip(pieces[1:], order[1:], strict=True), zip(received[1:], order[1:], strict=True))
    return torch.cat(received)


def point_to_point(
    local_features: Tensor, seed_inverse_ids: Tensor, counts_sent: list[int], counts_received: list[int], group: None
) -> Tensor:
    """One message per peer that has rows to exchange."""
    del group
    pieces = list(local_features[seed_inverse_ids].split(counts_received))
    return _exchange(pieces, counts_sent, _order())


def everything_gathered(
    local_features: Tensor, seed_inverse_ids: Tensor, counts_sent: list[int], counts_received: list[int], group: None
) -> Tensor:
    """Gathers features, ids and counts of all ranks and looks everything up locally."""
    del counts_sent, group
    world_size = dist.get_world_size()
    features = [torch.empty_like(local_features) for _ in range(world_size)]
    ids = [torch.empty_like(seed_inverse_ids) for _ in range(world_size)]
    counts = [[0] * world_size for _ in range(world_size)]
    dist.all_gather(features, local_features)
    dist.all_gather(ids, seed_inverse_ids)
    dist.all_gather_object(counts, counts_received)
    pieces = [features[r][ids[r].split(counts[r])[-i % world_size]] for i, r in enumerate(_order())]
    return torch.cat(pieces)


def sources_in_rank_order(
    local_features: Tensor, seed_inverse_ids: Tensor, counts_sent: list[int], counts_received: list[int], group: None
) -> Tensor:
    """Rank 0's rows first on every rank."""
    out = point_to_point(local_features, seed_inverse_ids, counts_sent, counts_received, group)
    pieces = out.split(counts_sent)
    start = dist.get_world_size() - dist.get_rank()
    return torch.cat(pieces[start:] + pieces[:start])


def equal_counts(
    local_features: Tensor, seed_inverse_ids: Tensor, counts_sent: list[int], counts_received: list[int], group: None
) -> Tensor:
    """T/W rows to and from everyone, whatever the lists say."""
    del counts_received, group
    size = len(seed_inverse_ids) // dist.get_world_size()
    equal = [size] * dist.get_world_size()
    out = local_features.new_zeros((sum(counts_sent), local_features.shape[1]))
    pieces = list(local_features[seed_inverse_ids[: sum(equal)]].split(equal))
    out[: sum(equal)] = _exchange(pieces, equal, _order())
    return out


def without_lookup(
    local_features: Tensor, seed_inverse_ids: Tensor, counts_sent: list[int], counts_received: list[int], group: None
) -> Tensor:
    """Sends the features as they lie, again from the start when they run out."""
    ids = torch.arange(len(seed_inverse_ids)) % len(local_features)
    return point_to_point(local_features, ids, counts_sent, counts_received, group)


def own_rows_only(
    local_features: Tensor, seed_inverse_ids: Tensor, counts_sent: list[int], counts_received: list[int], group: None
) -> Tensor:
    """The rows looked up here, none exchanged."""
    del counts_sent, counts_received, group
    return local_features[seed_inverse_ids]


def no_lookup_where_nothing_travels(
    local_features: Tensor, seed_inverse_ids: Tensor, counts_sent: list[int], counts_received: list[int], group: None
) -> Tensor:
    """Hands the features back as they lie where all rows stay."""
    if any(counts_sent[1:]) or any(counts_received[1:]):
        return point_to_point(local_features, seed_inverse_ids, counts_sent, counts_received, group)
    return local_features[torch.arange(len(seed_inverse_ids)) % len(local_features)]


def own_row_at_least(
    local_features: Tensor, seed_inverse_ids: Tensor, counts_sent: list[int], counts_received: list[int], group: None
) -> Tensor:
    """Puts a row of its own first, whether one stays or not."""
    out = point_to_point(local_features, seed_inverse_ids, counts_sent, counts_received, group)
    out[0] = local_features[seed_inverse_ids[0]]
    return out


def at_most_64_copies(
    local_features: Tensor, seed_inverse_ids: Tensor, counts_sent: list[int], counts_received: list[int], group: None
) -> Tensor:
    """Looks a row up no more than 64 times, and sends zeros from then on."""
    copies = (seed_inverse_ids[:, None] == seed_inverse_ids).tril().sum(dim=1)
    rows = local_features[seed_inverse_ids].where(copies[:, None] <= 64, 0)
    return point_to_point(rows, torch.arange(len(rows)), counts_sent, counts_received, group)


def runs_by_their_ends(
    local_features: Tensor, seed_inverse_ids: Tensor, counts_sent: list[int], counts_received: list[int], group: None
) -> Tensor:
    """Takes a piece for neighbours in a row where its ends are as theirs and nothing in it is beyond them."""
    ids = runs_by_ends(seed_inverse_ids, counts_received)
    return point_to_point(local_features, ids, counts_sent, counts_received, group)


HONEST = {"point_to_point": point_to_point, "everything_gathered": everything_gathered}
MUTANTS = {
    "sources_in_rank_order": sources_in_rank_order,
    "equal_counts": equal_counts,
    "without_lookup": without_lookup,
    "own_rows_only": own_rows_only,
}
NARROW = {
    "nothing_travels": no_lookup_where_nothing_travels,
    "all_to_the_next_rank": own_row_at_least,
    "one_seed": at_most_64_copies,
    "nearly_runs": runs_by_their_ends,
}
