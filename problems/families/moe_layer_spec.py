"""What the problems on an expert-parallel mixture-of-experts layer say alike: arguments, hops and cost. No torch."""

from dataclasses import replace
from math import comb

from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import HUGE_VALUES, TINY_VALUES, copied_values, of_tensor
from problems.spec.schema import (
    ALL_OTHERS,
    Argument,
    ArgumentKind,
    Cost,
    Dims,
    Hop,
    Output,
    Placement,
    Reading,
    Regime,
    Tolerance,
)
from problems.spec.taxonomy import Communication

_UNIFORM_SHARE = 0.95
"""Popular experts share owners more often than evenly chosen ones: distinct owners are counted this much lower."""

_ROUTER = (
    Argument(
        name="hidden_states",
        shape=("M", "N"),
        values="normal, different on every rank; one channel in 32 is an outlier; no choice of experts is a close one",
    ),
    Argument(
        name="gate_weight",
        shape=("num_experts", "N"),
        values="normal; a token's logits differ by about 0.5",
        replicated=True,
    ),
    Argument(
        name="gate_bias",
        shape=("num_experts",),
        values="between -0.5 and 0.5 in timed calls: some experts are much more popular than others",
        replicated=True,
    ),
)

_NETWORK = tuple(
    Argument(name=name, kind=ArgumentKind.MODULE, dtype="nn.Linear", values=values)
    for name, values in (
        ("gate_proj", "nn.Linear with weight (inter_dim, N) and, in timed calls, bias; normal, the rank's own"),
        ("up_proj", "nn.Linear with weight (inter_dim, N) and, in timed calls, bias; normal, the rank's own"),
        (
            "down_proj",
            "nn.Linear with weight (N, inter_dim) and, in timed calls, bias; normal with outlier rows, the rank's own",
        ),
    )
)

ADAPTERS = tuple(
    Argument(name=name, shape=shape, values="normal, the rank's own; an adapter contributes half of what it adapts")
    for name, shape in (
        ("lora_gate_A", ("lora_r", "N")),
        ("lora_gate_B", ("inter_dim", "lora_r")),
        ("lora_up_A", ("lora_r", "N")),
        ("lora_up_B", ("inter_dim", "lora_r")),
        ("lora_down_A", ("lora_r", "inter_dim")),
        ("lora_down_B", ("N", "lora_r")),
    )
)

COUNTED_WIRE = Reading(
    least=0.85,
    most=1.3,
    reason="The model counts the mean over routings; in one call the busiest rank sends or receives more.",
)
"""What a counter may show of the bytes that the reference of such a layer sends."""

HOPS = (
    Hop(
        source="every rank",
        target="every rank of its group",
        payload="how many rows it sends to each expert",
        pattern=Communication.ALL_GATHER,
    ),
    Hop(
        source="rank r",
        target="owners of the experts chosen",
        payload="token rows, and results on the way back",
        pattern=Communication.ALL_TO_ALL_V,
    ),
)

MUTANTS_NOT_APPLICABLE = {
    "last_rank_skipped": "without its counts nothing can be exchanged; the own mutant last_owner_silent stands for it",
    "shards_wrong_order": "with rotated counts nothing can be exchanged; the own mutant owners_rotated stands for it",
}


def _tokens_of_choices(dims: Dims, _world_size: int) -> Dims:
    """As many tokens as make so many choices, where each chooses every expert of twice as many as usual."""
    return {**dims, "M": -(-dims["choices"] // (2 * dims["num_experts"]))}


_REGIMES = (
    Regime(name="no_gate_bias", words="gate_bias is None", settings={"gate_bias": False}),
    Regime(
        name="no_projection_biases",
        words="the three projections have no bias",
        settings={"projection_biases": ""},
    ),
    Regime(
        name="some_projection_biases",
        words="of the three projections one or two have a bias",
        settings={"projection_biases": Among(options=("gate", "up", "down", "gate/up", "gate/down", "up/down"))},
    ),
    Regime(
        name="every_expert",
        words="every token chooses every expert",
        settings={"every_expert": True},
        at_large=False,
        narrow="usual_numbers",
    ),
    Regime(
        name="same_experts",
        words="all tokens of all ranks choose the same experts, neighbours in number, out of twice as many as usual; "
        "the first token of a rank is zero, and others agree in their first 16 channels or have zeros there",
        settings={"same_experts": True, "times_experts": 2, "channels": "alike"},
        at_large=False,
        apart=("no_gate_bias",),
    ),
    Regime(
        name="one_rank_has_no_tokens",
        words="one rank holds no tokens",
        settings={"tokens": "none_on_one_rank"},
    ),
    Regime(
        name="one_rank_is_idle",
        words="one rank holds no tokens, and all tokens of the others choose the same experts of other ranks, out of "
        "twice as many as usual",
        settings={"tokens": "none_on_one_rank", "same_experts": "elsewhere", "times_experts": 2},
        at_large=False,
    ),
    Regime(
        name="one_token",
        words="ranks hold a single token",
        dims={"M": 1},
        tolerances={
            "out": Tolerance(
                atol=0.8,
                rtol=0.4,
                rms=0.04,
                calibration="what experts make of one token may be small or cancel: honest programs erred by 0.014 rms",
            )
        },
    ),
    Regime(
        name="few_tokens",
        words="ranks hold 2 to 131 tokens, and tokens and networks have other widths",
        dims={
            "M": Whole(low=2, high=131, often=(3, 7, 67)),
            "N": Extent(low=256, high=1024, of=256),
            "inter_dim": Extent(low=64, high=576, of=64),
        },
        tolerances={
            "out": Tolerance(
                atol=0.8,
                rtol=0.4,
                rms=0.02,
                calibration="what experts make of two tokens may be small or cancel, as of one",
            )
        },
    ),
    Regime(
        name="wide_tokens",
        words="ranks hold few tokens, which are wide, and networks are narrow inside",
        dims={"M": Whole(low=3, high=20), "N": Extent(low=2304, high=4352, of=256), "inter_dim": 64},
        tolerances={
            "out": Tolerance(
                atol=0.8,
                rtol=0.4,
                rms=0.02,
                calibration="what experts make of three tokens may be small or cancel, as of one",
            )
        },
        narrow="tail_left_out",
    ),
    Regime(
        name="many_choices",
        words="ranks make more choices than a signed number of 16 bits can count: every token chooses every expert, "
        "out of twice as many as usual",
        settings={"every_expert": True, "times_experts": 2},
        dims={"choices": Whole(low=32_800, high=34_000)},
        at_large=False,
        derive=_tokens_of_choices,
        narrow="tail_left_out",
        apart=(ALL_OTHERS,),
    ),
    Regime(
        name="large_gates",
        words="what gate_proj makes is 131,072 times as large as in timed calls: beyond the range of float16, and its "
        "exponentials overflow float32",
        settings={"gates": 2.0**17},
        dtypes=("bfloat16", "float32"),
    ),
    Regime(
        name="closed_gates",
        words="gate_proj is a bias of -18 to -22 and a weight of zeros, so that SiLU is around -2^-24; what up_proj "
        "makes is around ten million",
        settings={"gates": 0.0},
        dtypes=("bfloat16", "float32"),
        apart=("no_projection_biases", "some_projection_biases", "copied_values", "far_logits"),
    ),
    Regime(
        name="unlikely_choice",
        words="all tokens choose one expert first and another with a probability around 2^-13, out of as many as usual "
        "or twice as many; what the owners of the others make is 1024 times as large",
        settings={"others": "unlikely", "times_experts": Whole(low=1, high=2), "top_k": 2},
        dtypes=("bfloat16", "float32"),
        apart=(
            "no_gate_bias",
            "same_experts",
            "one_rank_is_idle",
            "one_token",
            "few_tokens",
            "wide_tokens",
            "every_expert",
            "copied_values",
            "far_logits",
        ),
    ),
    Regime(
        name="huge_hidden",
        words="what up_proj makes is around ten million, beyond the range of float16, and down_proj is as much smaller",
        settings={"hidden": 2.0**24},
        dtypes=("bfloat16", "float32"),
    ),
    Regime(
        name="zero_tokens",
        words="all tokens are zero, or all weights of the router or of one of the projections, but not their biases",
        settings={"zero": Among(options=("tokens", "router", "gate_proj", "up_proj", "down_proj"))},
        hides=True,
        apart=(
            "no_gate_bias",
            "no_projection_biases",
            "some_projection_biases",
            "unlikely_choice",
            "copied_values",
            "far_logits",
        ),
    ),
    Regime(
        name="huge_tokens",
        words="tokens are around ten million, beyond the range of float16, and what multiplies them is as much "
        "smaller; or they are below 1e-4 in size, and what multiplies them is as much larger; or each of their "
        "channels is one, the other or as usual",
        settings={"tokens": Among(options=("huge", "tiny", "unequal"))},
        dtypes=("bfloat16", "float32"),
        narrow="arguments_in_float16",
    ),
)

ONE_CHOICE = Regime(
    name="one_choice", words="top_k is 1", settings={"top_k": 1}, narrow="usual_numbers", apart=("every_expert",)
)
MORE_CHOICES = Regime(
    name="more_choices",
    words="top_k is 3 or 4",
    settings={"top_k": Whole(low=3, high=4)},
    narrow="usual_numbers",
    apart=("every_expert",),
)
"""For layers where a token of a timed call chooses two experts."""

INVARIANTS = (
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


def regimes(*, made_by: str = "down_proj", times_experts: int | Whole = 2) -> tuple[Regime, ...]:
    """The regimes of every such layer; `made_by` are the arguments that the size of the output hangs on.

    `times_experts` is how many times as many experts as in timed calls there may be.
    """
    copied = copied_values(
        "out", words="a token's first choice has all the weight and experts pick elements of their tokens"
    )
    return (
        Regime(
            name="more_experts",
            words="there are twice as many experts as in timed calls of this size"
            + ("" if times_experts == 2 else ", or more"),
            settings={"times_experts": times_experts},
        ),
        *_REGIMES,
        *of_tensor(made_by, TINY_VALUES, HUGE_VALUES),
        copied,
        replace(
            copied,
            name="far_logits",
            words="all logits of the router are below -100, or above 500, and tokens lie on levels 256 apart: "
            "exponentials are zero or infinite unless the token's own maximum is subtracted; the layer only copies",
            settings={**copied.settings, "logits": Among(options=("low", "high"))},
            narrow="",
        ),
    )


def signature(*, adapters: tuple[Argument, ...] = ()) -> str:
    """The signature of `solution`."""
    tensors = "".join(f"{argument.name}: Tensor, " for argument in adapters)
    return (
        "solution(hidden_states: Tensor, gate_weight: Tensor, gate_bias: Tensor or None, gate_proj: nn.Linear, "
        f"up_proj: nn.Linear, down_proj: nn.Linear, {tensors}num_experts: int, top_k: int, "
        "group: ProcessGroup or None = None) -> Tensor"
    )


def arguments(*, num_experts: str, top_k: str, group: str, adapters: tuple[Argument, ...] = ()) -> tuple[Argument, ...]:
    """The parameters of `solution`, with words on the last three."""
    return (
        *_ROUTER,
        *_NETWORK,
        *adapters,
        Argument(name="num_experts", kind=ArgumentKind.INTEGER, dtype="int", values=num_experts, replicated=True),
        Argument(name="top_k", kind=ArgumentKind.INTEGER, dtype="int", values=top_k, replicated=True),
        Argument(name="group", kind=ArgumentKind.NONE, dtype="process group", values=group),
    )


def output(tolerance: Tolerance) -> Output:
    """The layer's output for the rank's own tokens."""
    return Output(name="out", shape=("M", "N"), placement=Placement.PER_RANK, tolerance=tolerance)


def cost(dims: Dims, *, owners: int, element_bytes: int) -> Cost:
    """A rank computes as many rows as it routes, on average; `owners` ranks share the experts.

    A row travels once to each distinct remote owner of its experts, and the weighted sum of what that owner computes
    comes back. Where the owners' networks are smaller than that, they may travel in place of the rows.
    """
    tokens, hidden, inner, rank = dims["M"], dims["N"], dims["inter_dim"], dims.get("lora_r", 0)
    experts, top_k = dims["num_experts"], dims["top_k"]
    rows = tokens * top_k
    parameters = 3 * hidden * inner + 2 * inner + hidden + 3 * rank * (hidden + inner)
    sent = 2 * (owners - 1) / owners * tokens * hidden
    networks = (owners - 1) * parameters
    distinct = top_k if experts == owners else _UNIFORM_SHARE * _distinct_owners(experts, top_k, owners)
    reference = sent * top_k * element_bytes + 8 * (owners - 1) * experts
    return Cost(
        flops={
            "matmul": 2 * tokens * hidden * experts + 6 * rows * inner * hidden + 6 * rows * rank * (hidden + inner)
        },
        memory_bytes=element_bytes * (2 * tokens * hidden + experts * (hidden + 1) + parameters),
        wire_bytes=min(sent * distinct, networks) * element_bytes,
        reference_wire_bytes=max(reference, min(sent * distinct, networks) * element_bytes),
        note="Means over routings. A row needs to travel once per distinct remote owner of its experts; or the owners' "
        "networks travel instead, where they are smaller (base). The reference sends a row per expert.",
    )


def cost_over_all_ranks(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The layer's cost with the experts spread over all ranks."""
    return cost(dims, owners=world_size, element_bytes=element_bytes)


def _distinct_owners(experts: int, top_k: int, owners: int) -> float:
    """Expected number of distinct owners of `top_k` experts chosen evenly out of `experts` in `owners` equal blocks."""
    elsewhere = experts - experts // owners
    return owners * (1 - comb(elsewhere, top_k) / comb(experts, top_k))
