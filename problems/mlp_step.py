"""One optimizer step on a two-layer MLP, which several problems shard in different ways: values and mathematics.

    h = relu(X W1^T + b1), o = h W2^T + b2, loss = mean over all elements of (o - y)^2

Sizes are `chunk` samples per rank, `d_in`, `hidden` and `d_out`; parameters always come in the order W1, b1, W2, b2.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from problems.mlp_step_spec import SHAPES
from problems.values import Call


@dataclass(frozen=True, kw_only=True)
class Hyperparameters:
    """What Adam is told; the same on all ranks, new on every call."""

    lr: float
    beta1: float
    beta2: float
    eps: float
    step: int
    weight_decay: float


def data(call: Call) -> tuple[Tensor, Tensor]:
    """The rank's `X_local` (chunk, d_in) and `y_local` (chunk, d_out).

    Every rank's samples lie around a centre of their own, so that its gradient is not the mean gradient however many
    samples there are. Features differ in scale, as those of a language model do.
    """
    scales = call.scales("features", (1, "d_in"), spread=0.6, shared=True)
    features = call.normal("X_local", ("chunk", "d_in"), dtype=torch.float32)
    features += call.normal("centre", (1, "d_in"), std=0.3, dtype=torch.float32)
    targets = call.normal("y_local", ("chunk", "d_out"), dtype=torch.float32)
    targets += call.normal("target centre", (1, "d_out"), std=0.3, dtype=torch.float32)
    return (features * scales).to(call.dtype), targets.to(call.dtype)


def parameters(call: Call, *, shared: bool = False) -> list[Tensor]:
    """W1, b1, W2, b2 of this rank; of all ranks if `shared`.

    Weights have a long tail, which one 8-bit scale cannot hold. Biases are small, so that rounding a product before
    its bias is added hardly ever moves a unit across the kink of relu.
    """
    inner, outer = (call.dims[name] ** -0.5 for name in ("d_in", "hidden"))
    return [
        call.long_tailed("W1", SHAPES["W1"], std=inner, shared=shared),
        call.normal("b1", SHAPES["b1"], std=0.2 * inner, shared=shared),
        call.long_tailed("W2", SHAPES["W2"], std=outer, shared=shared),
        call.normal("b2", SHAPES["b2"], std=0.2 * inner, shared=shared),
    ]


def gradient_unit(call: Call) -> float:
    """About the size of an element of the mean gradient, which Adam's moments and epsilon are measured by."""
    return 0.3 / call.dims["d_out"]


def exp_avg(call: Call, name: str, symbols: tuple[str | int, ...], *, shared: bool = False) -> Tensor:
    """A first moment: after one decay about as large as what the new gradient adds."""
    return call.normal(name, symbols, std=0.25 * gradient_unit(call), shared=shared)


def exp_avg_sq(call: Call, name: str, symbols: tuple[str | int, ...], *, shared: bool = False) -> Tensor:
    """A second moment, positive: after one decay about as large as what the new gradient adds."""
    draw = call.normal(name, symbols, std=0.7, dtype=torch.float32, shared=shared).exp_()
    return draw.mul_(0.1 * gradient_unit(call) ** 2).to(call.dtype)


def hyperparameters(call: Call, *, unit: float, spread: float, weight_decay: float = 0.0) -> Hyperparameters:
    """Secret numbers of this call, so chosen that every one of them shows in the result.

    Args:
        call: the call.
        unit: size of the gradient's elements; epsilon is a tenth to four tenths of it.
        spread: standard deviation of the parameters; the learning rate is 0.3 to 0.6 of it, where a real one would
            move them by less than the run's dtype resolves.
        weight_decay: mean of the drawn weight decay.
    """
    draws = call.uniform("hyperparameters", (5,), dtype=torch.float64, shared=True).tolist()
    return Hyperparameters(
        lr=spread * (0.3 + 0.3 * draws[0]),
        beta1=0.6 + 0.2 * draws[1],
        beta2=0.85 + 0.1 * draws[2],
        eps=unit * (0.1 + 0.3 * draws[3]),
        step=int(call.integers("step", (1,), low=1, high=8, shared=True)),
        weight_decay=weight_decay * (0.6 + 0.8 * draws[4]),
    )


def flat(tensors: list[Tensor]) -> Tensor:
    """The tensors' elements one after the other, in float64."""
    return torch.cat([tensor.reshape(-1).double() for tensor in tensors])


def unflat(vector: Tensor, call: Call) -> list[Tensor]:
    """W1, b1, W2, b2 cut out of the flat vector of P elements."""
    shapes = [call.shape(shape) for shape in SHAPES.values()]
    parts = vector.split([torch.Size(shape).numel() for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def mean_gradient(call: Call, vector: Tensor) -> Tensor:
    """The flat gradient (P) in float64 at the flat parameters `vector`, averaged over all ranks' samples."""
    total = torch.zeros_like(vector)
    for rank in range(call.world_size):
        features, targets = data(call.at_rank(rank))
        total += flat(_gradients(features.double(), targets.double(), *unflat(vector, call)))
    return total / call.world_size


def _gradients(X: Tensor, y: Tensor, W1: Tensor, b1: Tensor, W2: Tensor, b2: Tensor) -> list[Tensor]:  # noqa: N803, PLR0917
    hidden = (X @ W1.T + b1).relu_()
    from_output = (hidden @ W2.T + b2).sub_(y).mul_(2 / y.numel())
    from_hidden = (from_output @ W2).mul_(hidden > 0)
    return [from_hidden.T @ X, from_hidden.sum(0), from_output.T @ hidden, from_output.sum(0)]


def adam(
    w: Tensor, m: Tensor, v: Tensor, g: Tensor, given: Hyperparameters, *, decays: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Parameters, first and second moment after one step of Adam (Kingma and Ba, 2015), in float64.

    With `decays`, parameters are also reduced by lr * weight_decay of what they were (AdamW, Loshchilov and Hutter).
    """
    w, m, v, g = (tensor.double() for tensor in (w, m, v, g))
    m = given.beta1 * m + (1 - given.beta1) * g
    v = given.beta2 * v + (1 - given.beta2) * g.square()
    root = (v / (1 - given.beta2**given.step)).sqrt_()
    update = m / (1 - given.beta1**given.step) / (root + given.eps)
    if decays:
        update += given.weight_decay * w
    return w - given.lr * update, m, v
