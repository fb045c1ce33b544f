"""Module arguments as data: what kind of module it is and which tensors it holds, before any module exists."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class Module:
    """A reference to a module; the ranks that run a call turn it into a real one.

    Attributes:
        kind: "linear", an nn.Linear.
        tensors: its parameters by name: `weight` (out, in) and, where it has one, `bias` (out).
    """

    kind: str
    tensors: Mapping[str, Tensor]


def linear(weight: Tensor, bias: Tensor | None = None) -> Module:
    """A reference to an nn.Linear with this `weight` (out, in) and, where it has one, this `bias` (out)."""
    tensors = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
    return Module(kind="linear", tensors=tensors)


def build(module: Module) -> nn.Module:
    """The module that `module` refers to, over its very tensors; no gradient is asked for.

    Raises:
        ValueError: the kind is unknown.
    """
    if module.kind != "linear":
        raise ValueError(f"there is no module of kind {module.kind!r}; known: 'linear'")
    outputs, inputs = module.tensors["weight"].shape
    # Without storage at first: the tensors take its place.
    real = nn.Linear(inputs, outputs, bias="bias" in module.tensors, device=torch.device("meta"))
    for name, tensor in module.tensors.items():
        setattr(real, name, nn.Parameter(tensor, requires_grad=False))
    return real
