"""Limits of values that problems of one family say alike, as sentences of `Problem.invariants`. No torch.

They are those of the calls that are drawn, alone and in several regimes, with a little room for extreme elements.
"""

COPIED = "Finite values are zero, or from 1e-40 to 1e31 in size. NaN and infinities come too."
"""Where `problems.inputs.copied_values` draws a tensor: powers of two from -100 to 100, and subnormal numbers."""

MOE_LAYER = (
    "Tensors are contiguous, and ask for no gradient.",
    "Elements are at most 2e22 in size, and nonzero ones at least 1e-26.",
    "What `gate_proj` makes is at most 2e6 in size, and what `up_proj` makes at most 4e15.",
    "What goes into `down_proj` is at most 1e14 in size, and what comes out at most 2e17.",
    "Gates below -22 count for nothing: no result depends on what passes SiLU there.",
    "`group` is None.",
    "The router is the same on all ranks, and no choice of experts is a close one.",
    "The router's logits lie between -530 and 910.",
    "No result depends on choices whose probability is below 1e-5.",
    "All ranks hold as many tokens, but one may hold none.",
    "The networks of all ranks have the same shapes.",
)

MOE_EP = (
    *MOE_LAYER,
    "The number of tokens may be prime, and one expert may take all tokens of all ranks.",
    "The hidden size N is a multiple of 256, and the inner size a multiple of 64.",
    "`gate_bias` may be None. Each of the three modules has a bias or none, alike on all ranks.",
    "`top_k` is from 1 to 7, or all of `num_experts`.",
)

_CHOICES_OF_ADAM = (
    "Second moments are not negative.",
    "`beta1` is from 0 to 0.9, and `beta2` is 0 or from 0.85 to 0.9999.",
    "Where `beta2` is 0, `beta1` is at most 0.6.",
    "`step` is from 1 to 10,000,000.",
)


def step_of_adam(*, values: str, eps: str, lr: str) -> tuple[str, ...]:
    """What every step of Adam keeps to, where `values` says how large tensors are, and the others give two ranges."""
    return (
        "Tensors are contiguous.",
        "All tensors are in bfloat16.",
        values,
        *_CHOICES_OF_ADAM,
        f"`eps` is {eps}, and `lr` is 0 or {lr}.",
    )


def step_of_network(*, values: str) -> tuple[str, ...]:
    """The same for a step of the two-layer network, beside what holds for `d_out` and the number of parameters."""
    return (
        *step_of_adam(values=values, eps="from 1e-14 to 2e5", lr="from 0.001 to 0.16"),
        "No element of `X_local` is above 60 in size.",
        "All ranks have equally many samples. Their number may be odd, and so may `d_in` and `hidden`.",
    )


DELAYED_SCALING = (
    "Tensors are contiguous, and have the same shapes on all ranks.",
    "Values are at most 2e9 in size, and magnitudes in the history at most 2e14. Nonzero ones are at least 1e-39.",
    "The history has 16 entries, none of them negative. All may be zero.",
    "One entry of the history may be up to 132,000 times the largest magnitude.",
    "P need not be even, nor a multiple of 16.",
)

SCORES = "Scores lie between -980 and 980."
"""In attention over positions: 760 or 950 is added, at up to 1.25 times the default scale, and usual scores beside."""


def softmax_scale(most: float) -> str:
    """What `softmax_scale` may be: the default, near it, up to `most` times that, or flat."""
    return f"`softmax_scale` is None, a hundredth of the default, or 0.75 to {most:g} times the default."
