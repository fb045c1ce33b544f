"""One optimizer step on a two-layer MLP, which several problems shard in different ways: values and mathematics.

    h = relu(X W1^T + b1), o = h W2^T + b2, loss = mean over all elements of (o - y)^2

Sizes are `chunk` samples per rank, `d_in`, `hidden` and `d_out`; parameters always come in the order W1, b1, W2, b2.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from problems.families.mlp_step_spec import SHAPES
from problems.inputs.regime_values import LARGEST, in_regime, magnitude
from problems.inputs.values import Call

_FAR = 48
"""So many powers of two lie between a regime's features: float16 under one scale for all has 40."""


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
    samples, targets = (features * scales).to(call.dtype), targets.to(call.dtype)
    if _is_at_the_kink(call):
        half = len(samples) // 2
        last = half // 2 if call.setting("samples", "") == "outer_zero" else 0
        samples[: half - last] = 0.0
        samples[len(samples) - last :] = 0.0
    samples /= _larger(call)
    if call.setting("values", "") == "one_rank":
        samples = in_regime(call, "X_local", samples)
    return samples, in_regime(call, "y_local", targets)


def parameters(call: Call, *, shared: bool = False) -> list[Tensor]:
    """W1, b1, W2, b2 of this rank; of all ranks if `shared`.

    Weights have a long tail, which one 8-bit scale cannot hold. Biases are small, so that rounding a product before
    its bias is added hardly ever moves a unit across the kink of relu.
    """
    inner, outer = (call.dims[name] ** -0.5 for name in ("d_in", "hidden"))
    return [
        call.long_tailed("W1", SHAPES["W1"], std=inner, shared=shared).mul_(_larger(call) * (not _is_off(call))),
        call.normal("b1", SHAPES["b1"], std=0.0 if _is_at_the_kink(call) else 0.2 * inner, shared=shared),
        _last(call, "W2", call.long_tailed("W2", SHAPES["W2"], std=outer, shared=shared)),
        _last(call, "b2", call.normal("b2", SHAPES["b2"], std=0.2 * inner, shared=shared)),
    ]


def _larger(call: Call) -> float | Tensor:
    """By what a regime multiplies the first layer's weights and divides samples: their product stays the same.

    One number, or one for each of the `d_in` features.
    """
    if (style := call.setting("weights", "")) == "unequal":
        is_small = call.integers("regime's small features", ("d_in",), low=0, high=2, shared=True)
        return torch.exp2(_FAR * is_small)
    return LARGEST if style == "huge" else 1.0


def _is_off(call: Call) -> bool:
    """Whether the first layer's weights are zero in this call."""
    return bool(call.setting("weights", "") == "zero")


def _is_at_the_kink(call: Call) -> bool:
    """Whether zeros go into relu in this call."""
    return call.setting("samples", "") in ("half_zero", "outer_zero")


def _last(call: Call, name: str, parameter: Tensor) -> Tensor:
    """A parameter of the last layer: as small as the targets, where they are, so that gradients are small too."""
    return in_regime(call, name, parameter) if call.setting("values", "") in ("tiny", "zero") else parameter


def gradient_unit(call: Call) -> float:
    """About the size of an element of the mean gradient, which Adam's moments and epsilon are measured by."""
    return 0.3 / call.dims["d_out"] * magnitude(call)


def exp_avg(call: Call, name: str, symbols: tuple[str | int, ...], *, shared: bool = False) -> Tensor:
    """A first moment: after one decay about as large as what the new gradient adds."""
    return moment(call, call.normal(name, symbols, std=0.25 * gradient_unit(call), shared=shared))


def exp_avg_sq(call: Call, name: str, symbols: tuple[str | int, ...], *, shared: bool = False) -> Tensor:
    """A second moment, positive: after one decay about as large as what the new gradient adds."""
    draw = call.normal(name, symbols, std=0.7, dtype=torch.float32, shared=shared).exp_()
    return moment(call, draw.mul_(0.1 * gradient_unit(call) ** 2).to(call.dtype), is_second=True)


def moment(call: Call, drawn: Tensor, *, is_second: bool = False) -> Tensor:
    """A moment as the call's regime has it: zeros before the first step, or where only second ones are zero."""
    zero = ("zero", "second_zero") if is_second else ("zero",)
    return torch.zeros_like(drawn) if call.setting("moments", "") in zero else drawn


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
    step = int(call.integers("step", (1,), low=1, high=8, shared=True))
    return Hyperparameters(
        lr=float(call.setting("lr", spread * (0.3 + 0.3 * draws[0]))),
        beta1=float(call.setting("beta1", 0.6 + 0.2 * draws[1])),
        beta2=float(call.setting("beta2", 0.85 + 0.1 * draws[2])),
        eps=float(call.setting("eps", unit * (0.1 + 0.3 * draws[3]))),
        step=int(call.setting("step", step)),
        weight_decay=float(call.setting("weight_decay", weight_decay * (0.6 + 0.8 * draws[4]))),
    )


def flat(tensors: list[Tensor]) -> Tensor:
    """The tensors' elements one after the other, in float64."""
    return torch.cat([tensor.reshape(-1).double() for tensor in tensors])


def unflat(vector: Tensor, call: Call) -> list[Tensor]:
    """W1, b1, W2, b2 cut out of the flat vector of P elements."""
    shapes = [call.shape(shape) for shape in SHAPES.values()]
    parts = vector.split([torch.Size(shape).numel() for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def mean_gradient(call: Call, vector: Tensor, part: slice | None = None) -> Tensor:
    """The flat gradient (P) in float64 at the flat parameters `vector`, averaged over all ranks' samples.

    With `part`, only that part of it: rows of weights that have no element there are left out of most products.
    """
    part = slice(0, len(vector)) if part is None else part
    weights = unflat(vector, call)
    rows = _rows(weights, part)
    total = [torch.zeros_like(weight[own]) for weight, own in zip(weights, rows, strict=True)]
    for rank in range(call.world_size):
        features, targets = data(call.at_rank(rank))
        _add_gradients(total, rows, weights, features.double(), targets.double())
    before = sum(own.start * weight[0].numel() for weight, own in zip(weights, rows, strict=True))
    return flat(total)[part.start - before : part.stop - before].div_(call.world_size)


def _rows(weights: list[Tensor], part: slice) -> list[slice]:
    """Of every tensor the rows that have elements in a part of the flat vector: contiguous, there may be none."""
    rows, before = [], 0
    for weight in weights:
        start, stop = (min(max(place - before, 0), weight.numel()) for place in (part.start, part.stop))
        width = weight[0].numel()
        rows.append(slice(start // width, -(-stop // width)))
        before += weight.numel()
    return rows


def _add_gradients(
    total: list[Tensor], rows: list[slice], weights: list[Tensor], features: Tensor, targets: Tensor
) -> None:
    """Add to the `rows` of the four gradients what samples (n, d_in) with targets (n, d_out) give."""
    w1, b1, w2, b2 = weights
    inner, outer = _both(*rows[:2]), _both(*rows[2:])
    # Whatever is wanted of the first layer depends on every output.
    outputs = outer if inner.start == inner.stop else slice(0, len(b2))
    hidden = (features @ w1.T).add_(b1).relu_()
    error = (hidden @ w2[outputs].T).add_(b2[outputs]).sub_(targets[:, outputs])
    from_output = error.mul_(2 / targets.numel())
    from_hidden = (from_output @ w2[outputs, inner]).mul_(hidden[:, inner] > 0)
    for layer, from_layer, first, given in (
        (0, from_hidden, inner.start, features),
        (2, from_output, outputs.start, hidden),
    ):
        weight, bias = (from_layer[:, own.start - first : own.stop - first] for own in rows[layer : layer + 2])
        total[layer].addmm_(weight.T, given)
        total[layer + 1].add_(bias.sum(0))


def _both(left: slice, right: slice) -> slice:
    """What two ranges of rows span, of which either may be empty."""
    filled = [own for own in (left, right) if own.start < own.stop] or [slice(0, 0)]
    return slice(min(own.start for own in filled), max(own.stop for own in filled))


def adam(
    w: Tensor, m: Tensor, v: Tensor, g: Tensor, given: Hyperparameters, *, decays: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Parameters, first and second moment after one step of Adam (Kingma and Ba, 2015), in float64.

    With `decays`, parameters are also reduced by lr * weight_decay of what they were (AdamW, Loshchilov and Hutter).
    """
    w, m, v, g = (tensor.double() for tensor in (w, m, v, g))
    m = torch.lerp(m, g, 1 - given.beta1)
    v = (given.beta2 * v).addcmul_(g, g, value=1 - given.beta2)
    root = (v / (1 - given.beta2**given.step)).sqrt_().add_(given.eps)
    kept = w * (1 - given.lr * given.weight_decay) if decays else w
    return torch.addcdiv(kept, m, root, value=-given.lr / (1 - given.beta1**given.step)), m, v
