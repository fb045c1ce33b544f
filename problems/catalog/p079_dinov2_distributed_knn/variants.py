"""Programs that must pass and programs that must fail."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p079_dinov2_distributed_knn.reference import merge, solution
from problems.families.rank_parts import all_gathered

Pair = tuple[Tensor, Tensor]


def _exchanged(candidates: Tensor) -> Tensor:
    """Every rank's candidates (nq, W*count) for the own queries, from this rank's (W*nq, count) for all."""
    world_size = dist.get_world_size()
    received = torch.empty_like(candidates)
    dist.all_to_all_single(received, candidates.contiguous())
    return torch.cat(received.chunk(world_size), dim=1)


def in_float32(queries: Tensor, rows: Tensor, labels: Tensor, *rest: Any) -> Pair:
    """Similarities not rounded before the end."""
    sims, chosen = solution(queries.float(), rows.float(), labels, *rest)
    return sims.to(queries.dtype), chosen


def all_at_once(queries: Tensor, rows: Tensor, labels: Tensor, max_k: int, *_rest: Any, offered: int = 0) -> Pair:
    """Queries by all-gather, one product, candidates by all-to-all; each rank offers `offered` (0: k)."""
    sims, place = (torch.cat(all_gathered(queries)) @ rows).topk(offered or max_k, dim=1)
    return merge(_exchanged(sims), _exchanged(labels[0][place]), max_k)


def rows_travel(queries: Tensor, rows: Tensor, labels: Tensor, max_k: int, *_rest: Any) -> Pair:
    """Gathers the training features in place of the queries, last rank first, and searches them whole."""
    sims = queries @ torch.cat(all_gathered(rows)[::-1], dim=1)
    return merge(sims, torch.cat(all_gathered(labels)[::-1], dim=1).expand(len(queries), -1), max_k)


def each_offers_its_part(queries: Tensor, rows: Tensor, labels: Tensor, max_k: int, *_rest: Any) -> Pair:
    """Offers k/W candidates per rank, as if neighbours were spread evenly."""
    return all_at_once(queries, rows, labels, max_k, offered=-(-max_k // dist.get_world_size()))


def ascending(*arguments: Any) -> Pair:
    """The right neighbours, farthest first."""
    sims, labels = solution(*arguments)
    return sims.flip(1), labels.flip(1)


def labels_by_place(queries: Tensor, rows: Tensor, labels: Tensor, *rest: Any) -> Pair:
    """Takes the label from the own shard whichever rank the neighbour came from."""
    places = torch.arange(labels.shape[1], device=labels.device)[None]
    sims, place = solution(queries, rows, places, *rest)
    return sims, labels[0][place]


def nearest_repeated(*arguments: Any) -> Pair:
    """Names each neighbour twice and drops every other one."""
    sims, labels = solution(*arguments)
    return sims, labels[:, ::2].repeat_interleave(2, dim=1)[:, : labels.shape[1]]


def rows_in_float8(queries: Tensor, rows: Tensor, *rest: Any) -> Pair:
    """Training features rounded to 8 bits (e4m3, one scale per row)."""
    scale = rows.float().abs().amax(dim=0, keepdim=True) / 448
    rounded = (rows.float() / scale).to(torch.float8_e4m3fn).float() * scale
    return solution(queries, rounded.to(rows.dtype), *rest)


def each_offers_four_fifths(queries: Tensor, rows: Tensor, labels: Tensor, max_k: int, *_rest: Any) -> Pair:
    """Offers four fifths of k candidates per rank, as if no rank had more of the nearest."""
    return all_at_once(queries, rows, labels, max_k, offered=max(1, 4 * max_k // 5))


def two_at_least(queries: Tensor, rows: Tensor, labels: Tensor, max_k: int, *_rest: Any) -> Pair:
    """Finds two neighbours where one is asked for."""
    return all_at_once(queries, rows, labels, max(2, max_k))


def at_most_256(*arguments: Any) -> Pair:
    """Keeps room for 256 neighbours."""
    sims, labels = solution(*arguments)
    sims[:, 256:] = 0
    return sims, labels


def none_below_seven_tenths(*arguments: Any) -> Pair:
    """Starts every list of neighbours with -0.7, below which nothing counts."""
    sims, labels = solution(*arguments)
    return sims.clamp(min=-0.7), labels


def finds_one_more(queries: Tensor, rows: Tensor, labels: Tensor, max_k: int, *_rest: Any) -> Pair:
    """Finds the largest similarity that is not wanted first, and raises where a rank has no such row."""
    every = (torch.cat(all_gathered(queries)) @ rows).topk(max_k + 1, dim=1)
    sims, place = (part[:, :-1] for part in every)
    return merge(_exchanged(sims), _exchanged(labels[0][place]), max_k)


def one_query_left_out(queries: Tensor, *rest: Any) -> Pair:
    """Answers queries in pairs."""
    sims, labels = solution(queries, *rest)
    sims[len(queries) // 2 * 2 :] = 0
    return sims, labels


def row_once(queries: Tensor, rows: Tensor, labels: Tensor, *rest: Any) -> Pair:
    """Takes a row that is there again for the same one: it is zero from the second time on."""
    is_repeated = ((rows.T.float() @ rows.float()).triu(1) > 0.98).any(dim=0)
    return solution(queries, rows * ~is_repeated, labels, *rest)


def labels_as_floats(*arguments: Any) -> Pair:
    """Labels travel as float32, beside the similarities."""
    queries, rows, labels, *rest = arguments
    sims, chosen = solution(queries, rows, labels.float(), *rest)
    return sims, chosen.long()


HONEST = {"float32": in_float32, "all_at_once": all_at_once, "rows_travel": rows_travel}
MUTANTS = {
    "each_offers_its_part": each_offers_its_part,
    "ascending": ascending,
    "labels_by_place": labels_by_place,
    "nearest_repeated": nearest_repeated,
    "rows_in_float8": rows_in_float8,
}
NARROW = {
    "nearest_alone": two_at_least,
    "many_neighbours": at_most_256,
    "whole_shard": finds_one_more,
    "high_labels": labels_as_floats,
    "one_query": one_query_left_out,
    "repeated_rows": row_once,
    "near_rows_on_one_rank": each_offers_four_fifths,
    "nothing_is_near": none_below_seven_tenths,
}
