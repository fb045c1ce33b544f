"""Routings for expert-parallel exchanges: uneven, secret, and with as many rows arriving at every rank as leave it.

Every token of a rank chooses `topk` different experts of E; rank r owns experts r*E/W onwards. With equal totals the
shapes of an exchange do not depend on the data, while splits, counts and places all do.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from problems.inputs.regime_values import owner
from problems.inputs.values import Call

EVEN = 0.6
"""Share of the rows that is spread evenly over ranks; the rest goes where secret permutations send it."""


@dataclass(frozen=True)
class Routing:
    """A call's routing as one rank knows it.

    Attributes:
        counts: how many rows of each rank go to each expert, W x E (int64, on the CPU), the same on all ranks.
        choices: the experts of this rank's tokens in ascending order, M x topk (int64).
        rank: the rank that `choices` belong to.
    """

    counts: Tensor
    choices: Tensor
    rank: int

    @property
    def _by_owner(self) -> Tensor:
        """Counts as sources x owners x local experts."""
        return self.counts.view(len(self.counts), len(self.counts), -1)

    @property
    def sent(self) -> list[int]:
        """How many rows this rank sends to every rank."""
        splits: list[int] = self._by_owner[self.rank].sum(dim=1).tolist()
        return splits

    @property
    def received(self) -> list[int]:
        """How many rows this rank receives from every rank."""
        splits: list[int] = self._by_owner[:, self.rank].sum(dim=1).tolist()
        return splits

    @property
    def per_local_expert(self) -> Tensor:
        """How many rows each of this rank's experts receives from every rank, W x E/W."""
        return self._by_owner[:, self.rank].contiguous()

    @property
    def tokens(self) -> Tensor:
        """Token numbers of this rank's rows in the order of experts, tokens ascending inside one."""
        return self.map.nonzero()[:, 1]

    @property
    def map(self) -> Tensor:
        """Whether expert e was chosen by token m, E x M (bool)."""
        experts = torch.arange(self.counts.shape[1], device=self.choices.device)
        return (self.choices.unsqueeze(0) == experts.view(-1, 1, 1)).any(dim=2)


def draw(call: Call, counts: Tensor | None = None) -> Routing:
    """The routing of `call` (dimensions M, E, topk) for its rank.

    Whoever draws several ranks' passes `draw_counts(call)`, which is the same for all of them.
    """
    if counts is None:
        counts = draw_counts(call)
    # In the order of experts, rows i and i + M belong to one token: at most M rows per expert never meet themselves.
    experts = torch.arange(call.dims["E"]).repeat_interleave(counts[call.rank])
    choices = experts.view(call.dims["topk"], call.dims["M"]).t().to(call.device)
    order = call.permutation("tokens", call.dims["M"])
    return Routing(counts=counts, choices=choices[order].sort(dim=1).values, rank=call.rank)


def draw_counts(call: Call) -> Tensor:
    """Rows from each rank to each expert, W x E on the CPU: a rank sends topk * M, at most M of them to one expert.

    In usual calls every rank receives as many as it sends.
    """
    if (style := call.setting("routing", None)) in ("wanted", "shunned"):
        return _uneven_counts(call, owner(call), is_wanted=style == "wanted")
    world_size, rows = call.world_size, call.dims["topk"] * call.dims["M"]
    room = call.dims["M"] * (call.dims["E"] // world_size)
    # At least so many that one rank has room for all of the rest.
    even = max(int(rows * EVEN) // world_size, -(-(rows - room) // (world_size - 1)))
    if style == "even" or even * world_size > rows:
        return _split_over_experts(call, _few_rows(world_size, rows))
    between = torch.full((world_size, world_size), even)
    rest = rows - even * world_size
    layers = 2 * world_size
    cuts = call.integers("cuts", (layers - 1,), low=0, high=rest + 1, shared=True).sort().values.cpu()
    shares = torch.diff(cuts, prepend=torch.tensor([0]), append=torch.tensor([rest]))
    targets = torch.stack([call.permutation(f"targets{layer}", world_size, shared=True) for layer in range(layers)])
    # Layer by layer each rank sends a share to its target.
    between.scatter_add_(1, targets.t().cpu(), shares.expand(world_size, layers))
    return _split_over_experts(call, between)


def _few_rows(world_size: int, rows: int) -> Tensor:
    """Rows between ranks as even as can be: which of its neighbours a rank sends one more does not matter."""
    even, rest = divmod(rows, world_size)
    ranks = torch.arange(world_size)
    return even + ((ranks.view(1, -1) - ranks.view(-1, 1)) % world_size < rest).long()


def _split_over_experts(call: Call, between: Tensor) -> Tensor:
    """Rows between ranks divided among the owner's experts, by uneven weights; every entry at most M."""
    world_size, experts = call.world_size, call.dims["E"]
    weights = call.uniform(
        "weights", (world_size, world_size, experts // world_size), low=0.4, high=1.6, dtype=torch.float64, shared=True
    ).cpu()
    ends = (weights.cumsum(dim=2) / weights.sum(dim=2, keepdim=True) * between.unsqueeze(2)).round().long()
    ends[:, :, -1] = between
    if int(between.max()) > call.dims["M"] * (experts // world_size):
        raise ValueError(f"the experts of a rank would get {int(between.max())} rows of {call.dims['M']} tokens")
    counts = torch.diff(ends, dim=2, prepend=torch.zeros_like(ends[:, :, :1])).view(world_size * world_size, -1)
    for owned in counts:
        while (spare := int(owned.max()) - call.dims["M"]) > 0:  # only where tokens choose many of the experts
            owned[owned.argmax()] -= spare
            owned[owned.argmin()] += spare
    return counts.reshape(world_size, experts)


def _uneven_counts(call: Call, one: int, *, is_wanted: bool) -> Tensor:
    """Counts where everybody prefers the experts of rank `one`, or where these get nothing at all."""
    experts, local = call.dims["E"], call.dims["E_local"]
    counts, rows = torch.zeros(call.world_size, experts, dtype=torch.int64), call.dims["topk"] * call.dims["M"]
    for rank in range(call.world_size):
        order = call.permutation(f"regime's experts of {rank}", experts, shared=True).cpu()
        is_of_one = order // local == one
        order = torch.cat((order[is_of_one], order[~is_of_one])) if is_wanted else order[~is_of_one]
        counts[rank, order] = torch.tensor(_falling(rows, len(order), most=call.dims["M"]))
    return counts


def _falling(total: int, count: int, *, most: int) -> list[int]:
    """`count` numbers that add up to `total`, each half of what is left, none above `most`."""
    parts: list[int] = []
    for place in range(count):
        left = total - sum(parts)
        # The others must have room for the rest.
        parts.append(min(most, max(-(-left // 2), left - most * (count - 1 - place))))
    parts[-1] += total - sum(parts)
    return parts
