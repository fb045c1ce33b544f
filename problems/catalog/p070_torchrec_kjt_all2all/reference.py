"""The baseline: sizes, lengths and values, each by one library collective, then one pass that restores the order."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(
    lengths: Tensor,
    values: Tensor,
    key_splits: list[int],
    batch_size: int,
    pg: "dist.ProcessGroup | None" = None,
    weights: Tensor | None = None,
    stride_per_key: list[int] | None = None,
    stagger: int = 1,
) -> dict[str, Tensor]:
    """The rank's features over the whole batch, feature by feature and source by source.

    Raises:
        NotImplementedError: an option of the published interface that this problem does not use.
    """
    if weights is not None or stride_per_key is not None or stagger != 1:
        raise NotImplementedError("weights, stride_per_key and stagger stay at their defaults")
    owned = key_splits[dist.get_rank(pg)]
    per_owner = torch.stack([part.sum() for part in lengths.split([keys * batch_size for keys in key_splits])])
    sizes = torch.stack((per_owner, torch.full_like(per_owner, batch_size)), dim=1)
    incoming = torch.empty_like(sizes)
    dist.all_to_all_single(incoming, sizes, group=pg)
    # The library needs the sizes on the host: one wait for all of them.
    sent, received, batches = torch.stack((per_owner, *incoming.unbind(dim=1))).tolist()
    own_lengths = lengths.new_empty(owned * sum(batches))
    splits = [owned * batch for batch in batches]
    work = dist.all_to_all_single(
        own_lengths, lengths, splits, [keys * batch_size for keys in key_splits], group=pg, async_op=True
    )
    own_values = values.new_empty(sum(received))
    dist.all_to_all_single(own_values, values, received, sent, group=pg)
    work.wait()
    pieces = [part.view(owned, -1) for part in own_lengths.split(splits)]
    stride_per_rank = incoming[:, 1].contiguous()
    return {
        "lengths": torch.cat(pieces, dim=1).flatten(),
        "values": _by_feature(own_values, torch.stack([piece.sum(dim=1) for piece in pieces])),
        "stride": stride_per_rank.sum(),
        "stride_per_rank": stride_per_rank,
    }


def _by_feature(values: Tensor, counts: Tensor) -> Tensor:
    """Segments ordered (rank, feature) put into the order (feature, rank), given their sizes (ranks, features)."""
    old_starts = (counts.flatten().cumsum(0) - counts.flatten()).view(counts.shape).T.flatten()
    ends = counts.T.flatten().cumsum(0)
    shift = old_starts - (ends - counts.T.flatten())
    places = torch.arange(len(values), device=values.device)
    segment = torch.searchsorted(ends, places, right=True).clamp_(max=len(ends) - 1)
    return values[(places + shift[segment]).clamp_(0, len(values) - 1)]
