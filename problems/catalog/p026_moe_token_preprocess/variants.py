"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p026_moe_token_preprocess.reference import solution
from problems.families.rank_parts import all_gathered

Counts = tuple[Tensor, Tensor, Tensor, Tensor]


def only_what_is_needed(expert_mask: Tensor, num_experts: int, group: None) -> Counts:
    """Sends every rank the counts of its own experts, as integers."""
    del num_experts
    counts = expert_mask.bool().sum(dim=(1, 2)).int()
    received = torch.empty_like(counts)
    dist.all_to_all_single(received, counts, group=group)
    table = received.view(dist.get_world_size(group), -1).cpu()
    sent = counts.view(table.shape).sum(dim=1).cpu()
    return sent, table.sum(dim=1), table.float(), table.sum(dim=0).float()


def splits_as_lists(expert_mask: Tensor, num_experts: int, group: None) -> tuple[list[int], list[int], Tensor, Tensor]:
    """Returns the splits as lists of ints, as an all-to-all takes them."""
    sent, received, table, total = solution(expert_mask, num_experts, group)
    return sent.tolist(), received.tolist(), table, total


def from_choices(expert_mask: Tensor, num_experts: int, group: None) -> Counts:
    """Counts the positions of the ones, and gathers a list."""
    counts = expert_mask.argmax(dim=0).flatten().bincount(minlength=num_experts)
    every = all_gathered(counts, group)
    received = torch.stack(every).chunk(len(every), dim=1)[dist.get_rank(group)].cpu()
    sent = counts.view(len(every), -1).sum(dim=1).cpu()
    return sent, received.sum(dim=1), received.float(), received.sum(dim=0).float()


def first_slot_only(expert_mask: Tensor, num_experts: int, group: None) -> Counts:
    """Counts the first choice of every token."""
    return solution(expert_mask[:, :1], num_experts, group)


def repeats_counted_once(expert_mask: Tensor, num_experts: int, group: None) -> Counts:
    """Counts tokens per expert, and so a token that names an expert twice only once."""
    return solution(expert_mask.amax(dim=1, keepdim=True), num_experts, group)


def interleaved_experts(expert_mask: Tensor, num_experts: int, group: None) -> Counts:
    """Takes expert e to live on rank e mod W."""
    world_size = dist.get_world_size(group)
    order = torch.arange(num_experts).view(-1, world_size).t().flatten()
    return solution(expert_mask[order], num_experts, group)


def splits_swapped(expert_mask: Tensor, num_experts: int, group: None) -> Counts:
    """Hands back the splits in the wrong order."""
    sent, received, table, total = solution(expert_mask, num_experts, group)
    return received, sent, table, total


def transposed(expert_mask: Tensor, num_experts: int, group: None) -> Counts:
    """Lays the table out with experts first."""
    sent, received, table, total = solution(expert_mask, num_experts, group)
    return sent, received, table.t().reshape(table.shape), total


def assumed_balanced(expert_mask: Tensor, num_experts: int, group: None) -> Counts:
    """Takes every rank to send what this one sends."""
    world_size = dist.get_world_size(group)
    own = expert_mask.sum(dim=(1, 2)).view(world_size, -1)
    table = own[dist.get_rank(group)].repeat(world_size, 1)
    sent = own.sum(dim=1).long()
    return sent, table.sum(dim=1).long(), table, table.sum(dim=0)


def off_by_one(expert_mask: Tensor, num_experts: int, group: None) -> Counts:
    """Loses one token of the last expert."""
    sent, received, table, total = solution(expert_mask, num_experts, group)
    table[-1, -1] -= 1
    return sent, received, table, total


def two_slots(expert_mask: Tensor, num_experts: int, group: None) -> Counts:
    """Adds the first and the last slot of every token, as if there were two."""
    return solution(expert_mask[:, [0, -1]], num_experts, group)


def shares_kept(expert_mask: Tensor, num_experts: int, group: None) -> Counts:
    """Keeps shares of what a rank receives in place of counts; where nothing arrives they are no numbers."""
    sent, received, table, _ = solution(expert_mask, num_experts, group)
    total = table.double().sum()
    counts = (table.double() / total * total).round().float()
    return sent, received, counts, counts.sum(dim=0)


def counts_in_float16(expert_mask: Tensor, num_experts: int, group: None) -> Counts:
    """Sends counts as float16, which holds whole numbers up to 2048."""
    world_size = dist.get_world_size(group)
    every = all_gathered(expert_mask.sum(dim=(1, 2)).half(), group)
    received = torch.stack(every).float().chunk(world_size, dim=1)[dist.get_rank(group)].cpu()
    sent, _, _, _ = solution(expert_mask, num_experts, group)
    return sent, received.sum(dim=1).long(), received, received.sum(dim=0)


def squeezed(expert_mask: Tensor, num_experts: int, group: None) -> Counts:
    """Drops dimensions of length one before it adds up tokens."""
    counts = expert_mask.sum(dim=1).squeeze().sum(dim=-1)
    return solution(counts.view(-1, 1, 1), num_experts, group)


def one_row_at_least(expert_mask: Tensor, num_experts: int, group: None) -> Counts:
    """Sends a row to every rank, to keep the exchange from being empty."""
    sent, received, table, total = solution(expert_mask, num_experts, group)
    return sent.clamp(min=1), received.clamp(min=1), table, total


def in_the_order_of_memory(expert_mask: Tensor, num_experts: int, group: None) -> Counts:
    """Takes experts to be the fastest dimension in memory, whatever the strides are."""
    experts, slots, _ = expert_mask.shape
    return solution(expert_mask.as_strided(expert_mask.shape, (1, experts, experts * slots)), num_experts, group)


HONEST = {"only_what_is_needed": only_what_is_needed, "from_choices": from_choices, "splits_as_lists": splits_as_lists}
MUTANTS = {
    "first_slot_only": first_slot_only,
    "repeats_counted_once": repeats_counted_once,
    "interleaved_experts": interleaved_experts,
    "splits_swapped": splits_swapped,
    "transposed": transposed,
    "assumed_balanced": assumed_balanced,
    "off_by_one": off_by_one,
}
NARROW = {
    "other_choices": two_slots,
    "one_token": squeezed,
    "all_to_one": shares_kept,
    "one_expert": counts_in_float16,
    "one_gets_nothing": one_row_at_least,
    "contiguous_mask": in_the_order_of_memory,
}
