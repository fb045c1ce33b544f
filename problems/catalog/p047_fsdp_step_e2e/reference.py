"""The baseline: all-gather of the flat parameters, autograd, reduce-scatter, PyTorch's fused AdamW on the shard."""

import torch
import torch.distributed as dist
from torch import Tensor, nn


def solution(
    X_local: Tensor,
    y_local: Tensor,
    flat_param_shard: Tensor,
    param_shapes: "tuple[tuple[int, ...], ...]",
    exp_avg_shard: Tensor,
    exp_avg_sq_shard: Tensor,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The rank's shards (P/W,) of the parameters, first and second moments after the step."""
    world_size = dist.get_world_size()
    flat = flat_param_shard.new_empty(world_size * flat_param_shard.numel())
    dist.all_gather_into_tensor(flat, flat_param_shard)

    gradient = torch.empty_like(flat_param_shard)
    dist.reduce_scatter_tensor(gradient, _gradient(X_local, y_local, flat, param_shapes))
    gradient /= world_size

    weights = flat_param_shard.clone()
    optimizer = torch.optim.AdamW(
        [weights], lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay, fused=True
    )
    state = {
        "step": torch.full((), step - 1.0, device=weights.device),
        "exp_avg": exp_avg_shard.clone(),
        "exp_avg_sq": exp_avg_sq_shard.clone(),
    }
    optimizer.state[weights] = state
    weights.grad = gradient
    optimizer.step()
    return weights, state["exp_avg"], state["exp_avg_sq"]


def _gradient(X: Tensor, y: Tensor, flat: Tensor, shapes: "tuple[tuple[int, ...], ...]") -> Tensor:
    """The flat gradient of the mean squared error over the rank's samples."""
    with torch.enable_grad():
        parts = flat.split([torch.Size(shape).numel() for shape in shapes])
        leaves = [part.view(shape).detach().requires_grad_() for part, shape in zip(parts, shapes, strict=True)]
        W1, b1, W2, b2 = leaves
        out = nn.functional.linear(nn.functional.linear(X, W1, b1).relu(), W2, b2)
        gradients = torch.autograd.grad(nn.functional.mse_loss(out, y), leaves)
    return torch.cat([gradient.reshape(-1) for gradient in gradients])
