"""MoE router load-balancing loss, averaged over ranks, described."""

from problems.spec.ranges import Extent, Whole
from problems.spec.regimes import MANY, beyond_16_bits, other_extents
from problems.spec.schema import (
    Argument,
    ArgumentKind,
    Cost,
    Dims,
    Hop,
    Output,
    Placement,
    Problem,
    Regime,
    Size,
    SizeName,
    Tolerance,
    fixed,
)
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage


def cost(dims: Dims, world_size: int, element_bytes: int) -> Cost:
    """The logits are read once; one float32 scalar is all-reduced."""
    elements = dims["M"] * dims["E"]
    wire = 2 * (world_size - 1) / world_size * 4
    return Cost(
        flops={"fp32": 8 * elements},
        memory_bytes=element_bytes * elements + 4,
        wire_bytes=wire,
        reference_wire_bytes=wire,
        note="A scalar on the wire: only its latency counts.",
    )


PROBLEM = Problem(
    number=24,
    slug="load_balancing_loss_fn",
    title="MoE router load-balancing loss, averaged over ranks",
    summary="How often experts are chosen times how probable they are, on each rank's tokens; the mean over the ranks.",
    origin="Hugging Face Transformers (Mixtral's auxiliary router loss, after Switch Transformer), averaged over ranks",
    parallelism=(Parallelism.DATA,),
    communication=(Communication.ALL_REDUCE,),
    block=Block.LOSS,
    stage=(Stage.TRAINING,),
    domain=Domain.MOE_LLM,
    signature="solution(gate_logits: Tensor or tuple[Tensor, ...], num_experts: int, top_k: int = 2, "
    "attention_mask: Tensor or None = None) -> Tensor",
    arguments=(
        Argument(
            name="gate_logits",
            shape=("M", "E"),
            values="normal plus a preference for experts that differs between ranks; chosen experts stand out by 0.3, "
            "so that no choice is a tie. One tensor in timed calls; in regimes with layers, a tuple of them",
        ),
        Argument(
            name="num_experts", kind=ArgumentKind.INTEGER, dtype="int", values="E: 8; 128 at large", replicated=True
        ),
        Argument(name="top_k", kind=ArgumentKind.INTEGER, dtype="int", values="2; 8 at large", replicated=True),
        Argument(
            name="attention_mask",
            kind=ArgumentKind.NONE,
            dtype="Tensor",
            values="None in timed calls: every token counts",
        ),
    ),
    outputs=(
        Output(
            name="loss",
            shape=(),
            dtype="float32",
            placement=Placement.REPLICATED,
            tolerance=Tolerance(
                atol=0.002,
                rtol=0.002,
                calibration="2026-11-21, CPU, torch 2.13, gloo, bfloat16, tiny, 2, 4 and 8 ranks, 12 calls. Honest "
                "programs (means rounded to bfloat16; float64) err by at most 0.0025 of an allowance of 0.004 for a "
                "single number. The cheapest cheats (global statistics, first choice only) err by at least 0.05.",
            ),
        ),
    ),
    sizes={
        SizeName.TINY: Size(dims=fixed(M=200, E=8, top_k=2), system="a check on CPU ranks"),
        SizeName.BASE: Size(dims=fixed(M=1024, E=8, top_k=2), system="1024 tokens and 8 experts per rank"),
        SizeName.LARGE: Size(
            dims=fixed(M=94 * 32_768, E=128, top_k=8),
            system="Qwen3-235B-A22B (94 layers, 128 experts, 8 per token): the logits of all layers for 32768 tokens "
            "per rank",
        ),
    },
    cost=cost,
    hops=(
        Hop(
            source="every rank",
            target="every rank",
            payload="one float32: its loss",
            pattern=Communication.ALL_REDUCE,
        ),
    ),
    mutants_not_applicable=dict.fromkeys(
        ("squeezed_int8", "squeezed_float8"),
        "the payload is one number, which an 8-bit format with a scale of its own carries exactly",
    ),
    notes=(
        "The interface admits a tuple of tensors and a mask; timed calls have one tensor and no mask.",
        "Losses are averaged over ranks; a loss of averaged statistics is another number.",
    ),
    regimes=(
        Regime(
            name="other_choices",
            words="top_k is another number",
            settings={"top_k": Whole(low=1, high=8, often=(3, 4, 5, 6))},
            narrow="usual_numbers",
        ),
        Regime(
            name="every_expert",
            words="top_k is the number of experts, so that every token chooses all of them",
            settings={"top_k": "all"},
            at_large=False,
        ),
        Regime(
            name="logits_apart",
            words="the largest logit of a row is 96, 0 or -160, where exponentials of float32 are infinite or zero; "
            "most others lie so far below it that their probabilities are zero in float16",
            settings={"logits": "apart"},
        ),
        Regime(name="single_layer", words="gate_logits is a tuple of a single layer", settings={"layers": 1}),
        Regime(
            name="layers",
            words="gate_logits is a tuple of layers",
            settings={"layers": Whole(low=2, high=9, often=(4,))},
        ),
        Regime(
            name="masked_tokens",
            words="attention_mask leaves tokens out, which prefer other experts",
            settings={"mask": "some"},
        ),
        Regime(
            name="masked_layers",
            words="gate_logits is a tuple of layers and attention_mask leaves tokens out of all of them",
            settings={"mask": "some", "layers": Whole(low=2, high=9)},
        ),
        Regime(
            name="one_token_counts",
            words="attention_mask leaves in a single token on one rank",
            settings={"mask": "one_token"},
        ),
        # No fewer experts than a token may choose.
        other_extents(narrow="", M=Extent(low=32, high=1399), E=Extent(low=8, high=319)),
        beyond_16_bits("many_tokens", M=MANY, E=8, narrow=""),
        Regime(
            name="many_experts",
            words="there are more experts than 8 bits can number",
            dims={"M": Extent(low=32, high=200), "E": Extent(low=320, high=512)},
        ),
    ),
    fewer_bits="A rank sends one number, and honest means in bfloat16 are off by as much as 10 bits of it.",
    invariants=(
        "Tensors of logits are contiguous, and those of a tuple have equal shapes.",
        "Logits lie between -240 and 96.",
        "All ranks have equally many rows, which may be an odd number. A layer has at least 3.",
        "`num_experts` is the number of columns of the logits. It lies between 8 and 512, and may be odd.",
        "`top_k` lies between 1 and 8, or is `num_experts`.",
        "A tuple has at most 9 layers.",
        "`attention_mask` holds 0 and 1 (int64) in a matrix of sequences and positions, with at least one 1 per rank.",
        "It has one entry per token of a layer. It is None on all ranks or on none.",
        "Chosen experts stand out by 0.25 or more: no choice is a tie.",
        "The logits of a row lie within 77 of each other.",
    ),
)
