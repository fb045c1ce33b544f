"""Collectives of `torch.distributed` with something done to what they carry, for making mutants of a reference.

Works on programs that call collectives as `dist.NAME(...)`, `dist` being the module `torch.distributed`, which all
references and variants do. Asynchronous collectives finish before they return.
"""

# ruff: noqa: A002, ARG002, FBT001, FBT002, PLR0917  the signatures are those of torch.distributed

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

Group = dist.ProcessGroup | None


def _unchanged(tensor: Tensor, _group: Group) -> Tensor:
    return tensor


def _in_order(count: int) -> Sequence[int]:
    return range(count)


def _unwatched(_name: str, _arguments: dict[str, Any]) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Tap:
    """What happens to every collective.

    Attributes:
        payload: what a rank sends in place of a tensor.
        order: which received shard stands at each index, for collectives that carry one shard per rank.
        is_connected: False where nothing leaves a rank: each collective hands back the rank's own part, and zeros
            where it has none.
        total: how parts are added, by rank, where a collective sums; None for the library's way.
        watch: gets the name and the arguments of each collective before it runs.
    """

    payload: Callable[[Tensor, Group], Tensor] = _unchanged
    order: Callable[[int], Sequence[int]] = _in_order
    is_connected: bool = True
    total: Callable[[list[Tensor]], Tensor] | None = None
    watch: Callable[[str, dict[str, Any]], None] = _unwatched


class _Done:
    """A handle of work that has already finished."""

    def wait(self, _timeout: Any = None) -> bool:
        """Return at once."""
        return True

    def is_completed(self) -> bool:
        """Always."""
        return True


@dataclass(frozen=True)
class _Message:
    """A point-to-point operation, in place of dist.P2POp."""

    op: Callable[..., Any]
    tensor: Tensor
    peer: int | None = None
    group: Group = None
    tag: int = 0
    group_peer: int | None = None


def _copy_head(target: Tensor, source: Tensor) -> None:
    """Fill `target` with the first elements of `source`, zeros where it is shorter."""
    count = min(target.numel(), source.numel())
    target.zero_()
    target.view(-1)[:count] = source.reshape(-1)[:count]


class _Collectives:
    """Replacements for the functions of torch.distributed, by the same names and signatures."""

    def __init__(self, tap: Tap) -> None:
        self.tap = tap
        self.real = {name: getattr(dist, name) for name in _NAMES}

    def _permute(self, parts: Sequence[Tensor]) -> None:
        """Put received shards into the tap's order; shards of different shapes stay."""
        if len({part.shape for part in parts}) == 1:
            copies = [part.clone() for part in parts]
            for part, source in zip(parts, self.tap.order(len(parts)), strict=True):
                part.copy_(copies[source])

    def _added(self, sent: Tensor, op: Any, group: Group) -> Tensor | None:
        """The sum of all ranks' `sent` in the tap's way; None where the tap has none or the collective adds nothing."""
        if self.tap.total is None or not self.tap.is_connected or op != dist.ReduceOp.SUM:
            return None
        parts = [torch.empty_like(sent) for _ in range(dist.get_world_size(group))]
        self.real["all_gather"](parts, sent, group)
        return self.tap.total(parts)

    def all_reduce(
        self, tensor: Tensor, op: Any = dist.ReduceOp.SUM, group: Group = None, async_op: bool = False
    ) -> _Done:
        sent = self.tap.payload(tensor, group)
        added = self._added(sent.contiguous(), op, group)
        tensor.copy_(sent if added is None else added)
        if self.tap.is_connected and added is None:
            self.real["all_reduce"](tensor, op, group)
        return _Done()

    def all_gather_into_tensor(
        self, output_tensor: Tensor, input_tensor: Tensor, group: Group = None, async_op: bool = False
    ) -> _Done:
        sent = self.tap.payload(input_tensor, group).contiguous()
        parts = output_tensor.view(dist.get_world_size(group), -1).unbind()
        if self.tap.is_connected:
            self.real["all_gather_into_tensor"](output_tensor, sent, group)
        else:
            for part in parts:
                part.copy_(sent.view(-1))
        self._permute(parts)
        return _Done()

    def all_gather(
        self, tensor_list: list[Tensor], tensor: Tensor, group: Group = None, async_op: bool = False
    ) -> _Done:
        sent = self.tap.payload(tensor, group).contiguous()
        if self.tap.is_connected:
            self.real["all_gather"](tensor_list, sent, group)
        else:
            for part in tensor_list:
                _copy_head(part, sent)
        self._permute(tensor_list)
        return _Done()

    def reduce_scatter_tensor(
        self,
        output: Tensor,
        input: Tensor,
        op: Any = dist.ReduceOp.SUM,
        group: Group = None,
        async_op: bool = False,
    ) -> _Done:
        sent = self.tap.payload(input, group).contiguous().clone()
        parts = sent.view(dist.get_world_size(group), -1).unbind()
        self._permute(parts)
        if (added := self._added(sent, op, group)) is not None:
            output.view(-1).copy_(added.view(len(parts), -1)[dist.get_rank(group)])
        elif self.tap.is_connected:
            self.real["reduce_scatter_tensor"](output, sent, op, group)
        else:
            output.view(-1).copy_(parts[dist.get_rank(group)])
        return _Done()

    def reduce_scatter(
        self,
        output: Tensor,
        input_list: list[Tensor],
        op: Any = dist.ReduceOp.SUM,
        group: Group = None,
        async_op: bool = False,
    ) -> _Done:
        sent = [self.tap.payload(part, group).contiguous().clone() for part in input_list]
        self._permute(sent)
        if self.tap.total is not None and (added := self._added(torch.stack(sent), op, group)) is not None:
            output.copy_(added[dist.get_rank(group)])
        elif self.tap.is_connected:
            self.real["reduce_scatter"](output, sent, op, group)
        else:
            output.copy_(sent[dist.get_rank(group)])
        return _Done()

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: list[int] | None = None,
        input_split_sizes: list[int] | None = None,
        group: Group = None,
        async_op: bool = False,
    ) -> _Done:
        sent = self.tap.payload(input, group).contiguous()
        if self.tap.is_connected:
            self.real["all_to_all_single"](output, sent, output_split_sizes, input_split_sizes, group)
        else:
            _copy_head(output, sent)
        if output_split_sizes is None:
            self._permute(output.view(dist.get_world_size(group), -1).unbind())
        else:
            self._permute(torch.split(output, output_split_sizes))
        return _Done()

    def all_to_all(
        self,
        output_tensor_list: list[Tensor],
        input_tensor_list: list[Tensor],
        group: Group = None,
        async_op: bool = False,
    ) -> _Done:
        sent = [self.tap.payload(part, group).contiguous() for part in input_tensor_list]
        if self.tap.is_connected:
            self.real["all_to_all"](output_tensor_list, sent, group)
        else:
            for target, source in zip(output_tensor_list, sent, strict=True):
                _copy_head(target, source)
        self._permute(output_tensor_list)
        return _Done()

    def broadcast(
        self,
        tensor: Tensor,
        src: int | None = None,
        group: Group = None,
        async_op: bool = False,
        group_src: int | None = None,
    ) -> _Done:
        is_source = dist.get_rank() == src or dist.get_rank(group) == group_src
        if is_source:
            tensor.copy_(self.tap.payload(tensor, group))
        if self.tap.is_connected:
            self.real["broadcast"](tensor, src, group, group_src=group_src)
        elif not is_source:
            # It may be fresh memory in which the oracle has just had the right answer.
            tensor.zero_()
        return _Done()

    def reduce(
        self,
        tensor: Tensor,
        dst: int | None = None,
        op: Any = dist.ReduceOp.SUM,
        group: Group = None,
        async_op: bool = False,
        group_dst: int | None = None,
    ) -> _Done:
        sent = self.tap.payload(tensor, group)
        added = self._added(sent.contiguous(), op, group)
        tensor.copy_(sent if added is None else added)
        if self.tap.is_connected and added is None:
            self.real["reduce"](tensor, dst, op, group, group_dst=group_dst)
        return _Done()

    def scatter(
        self,
        tensor: Tensor,
        scatter_list: list[Tensor] | None = None,
        src: int | None = None,
        group: Group = None,
        async_op: bool = False,
        group_src: int | None = None,
    ) -> _Done:
        sent = None
        if scatter_list:
            sent = [self.tap.payload(part, group).contiguous().clone() for part in scatter_list]
            self._permute(sent)
        if self.tap.is_connected:
            self.real["scatter"](tensor, sent, src, group, group_src=group_src)
        elif sent:
            tensor.copy_(sent[dist.get_rank(group)])
        else:
            tensor.zero_()
        return _Done()

    def gather(
        self,
        tensor: Tensor,
        gather_list: list[Tensor] | None = None,
        dst: int | None = None,
        group: Group = None,
        async_op: bool = False,
        group_dst: int | None = None,
    ) -> _Done:
        sent = self.tap.payload(tensor, group).contiguous()
        if self.tap.is_connected:
            self.real["gather"](sent, gather_list, dst, group, group_dst=group_dst)
        for part in (gather_list or []) if not self.tap.is_connected else []:
            _copy_head(part, sent)
        if gather_list:
            self._permute(gather_list)
        return _Done()

    def send(
        self, tensor: Tensor, dst: int | None = None, group: Group = None, tag: int = 0, group_dst: int | None = None
    ) -> None:
        if self.tap.is_connected:
            self.real["send"](self.tap.payload(tensor, group), dst, group, tag, group_dst)

    def recv(
        self,
        tensor: Tensor,
        src: int | None = None,
        group: Group = None,
        tag: int = 0,
        group_src: int | None = None,
    ) -> int | None:
        if self.tap.is_connected:
            source: int = self.real["recv"](tensor, src, group, tag, group_src)
            return source
        tensor.zero_()
        return src

    def isend(
        self, tensor: Tensor, dst: int | None = None, group: Group = None, tag: int = 0, group_dst: int | None = None
    ) -> Any:
        if not self.tap.is_connected:
            return _Done()
        return self.real["isend"](self.tap.payload(tensor, group).contiguous(), dst, group, tag, group_dst)

    def irecv(
        self, tensor: Tensor, src: int | None = None, group: Group = None, tag: int = 0, group_src: int | None = None
    ) -> Any:
        if self.tap.is_connected:
            return self.real["irecv"](tensor, src, group, tag, group_src)
        tensor.zero_()
        return _Done()

    def P2POp(self, *arguments: Any, **named: Any) -> _Message:  # noqa: N802  the name it replaces
        return _Message(*arguments, **named)

    def batch_isend_irecv(self, p2p_op_list: list[_Message]) -> list[Any]:
        return [
            message.op(message.tensor, message.peer, message.group, message.tag, message.group_peer)
            for message in p2p_op_list
        ]


_NAMES = tuple(name for name in vars(_Collectives) if not name.startswith("_"))


def _watched(
    name: str, function: Callable[..., Any], watch: Callable[[str, dict[str, Any]], None]
) -> Callable[..., Any]:
    """`function`, whose arguments by name are shown to `watch` first."""
    signature = inspect.signature(function)

    def call(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        watch(name, bound.arguments)
        return function(*arguments, **named)

    return call


@contextmanager
def tapped(tap: Tap) -> Iterator[None]:
    """Within the context, every collective called through `torch.distributed` goes through `tap`."""
    collectives = _Collectives(tap)
    for name in _NAMES:
        setattr(dist, name, _watched(name, getattr(collectives, name), tap.watch))
    try:
        yield
    finally:
        for name, function in collectives.real.items():
            setattr(dist, name, function)
