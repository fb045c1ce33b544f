"""The groups in which the benchmark's paper counts its problems: by category, and by the kind of code base.

The paper gives counts, and does not say which problem counts where. So the rules here are ours. The site shows the
paper's counts beside these (`problems/data/published`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from problems.spec.schema import Problem
from problems.spec.taxonomy import Block, Labelled, Parallelism


class Category(Labelled):
    """The twelve rows of the paper's table of results; a problem counts in one."""

    COLLECTIVE = "collective", "Collective Primitive"
    TENSOR = "tensor", "Tensor Parallel"
    SEQUENCE = "sequence", "Sequence Parallel"
    CONTEXT = "context", "Context Parallel"
    PIPELINE = "pipeline", "Pipeline Parallel"
    DATA = "data", "Data Parallel"
    EXPERT = "expert", "Expert Parallel"
    FSDP = "fsdp", "FSDP / ZeRO"
    VOCAB = "vocab", "Vocab Parallel"
    GRAPH = "graph", "Graph Parallel"
    SPATIAL = "spatial", "Geometric / Spatial"
    OTHER = "other", "Other"


class SourceFamily(Labelled):
    """The paper's kinds of code bases."""

    RL = "rl", "RL post-training"
    TRAINING = "training", "LLM training"
    KERNELS = "kernels", "Kernel libraries"
    NCCL = "nccl", "NVIDIA/nccl"
    VISION = "vision", "Vision models"
    GNN = "gnn", "GNN training"
    SCIENCE = "science", "Scientific computing"
    INFERENCE = "inference", "Inference engines"
    OTHER = "other", "Other"


_BY_PARALLELISM = {
    Parallelism.DATA: Category.DATA,
    Parallelism.FSDP: Category.FSDP,
    Parallelism.ZERO: Category.FSDP,
    Parallelism.TENSOR: Category.TENSOR,
    Parallelism.VOCAB: Category.VOCAB,
    Parallelism.SEQUENCE: Category.SEQUENCE,
    Parallelism.CONTEXT: Category.CONTEXT,
    Parallelism.EXPERT: Category.EXPERT,
    Parallelism.PIPELINE: Category.PIPELINE,
    Parallelism.SPATIAL: Category.SPATIAL,
    Parallelism.GRAPH: Category.GRAPH,
}
_BY_CODE_BASE = (
    (SourceFamily.OTHER, ("flash-linear-attention", "TorchRec", "Savanna")),
    (SourceFamily.RL, ("VeOmni", "xorl", "NeMo-RL")),
    (SourceFamily.VISION, ("OpenCLIP", "gsplat", "Open-Sora", "MAGI-1", "DINOv2", "SAM 3")),
    (SourceFamily.GNN, ("PyTorch Geometric", "DGL", "GraphStorm")),
    (SourceFamily.SCIENCE, ("PhysicsNeMo", "torch-harmonics", "DeePMD", "cuPyNumeric")),
    (SourceFamily.INFERENCE, ("vLLM", "DistriFusion")),
    (
        SourceFamily.TRAINING,
        ("Transformers", "DeepSeek", "DeepSpeed", "PyTorch", "Megatron", "Transformer Engine", "ring-flash-attention"),
    ),
)
"""Names that an origin may contain, in the order in which they are looked for."""


def category(problem: Problem) -> Category:
    """The row of the paper's table that a problem belongs to, by our rule.

    That is the first of its kinds of parallelism, with four exceptions. Losses and log-probabilities over a sharded
    vocabulary are Vocab Parallel. Ulysses is Context Parallel, as in the paper's drawing. A row-sharded embedding is
    Tensor Parallel. What exchanges sparse features or sorts is Other.
    """
    kinds = problem.parallelism
    if not kinds:
        return Category.COLLECTIVE
    if problem.block in (Block.SORT, Block.RECOMMENDER):
        return Category.OTHER
    if Parallelism.VOCAB in kinds and problem.block is Block.LOSS:
        return Category.VOCAB
    if kinds[0] is Parallelism.SEQUENCE and Parallelism.CONTEXT in kinds:
        return Category.CONTEXT
    return _BY_PARALLELISM.get(kinds[0], Category.TENSOR)


def source_family(problem: Problem) -> SourceFamily:
    """The kind of code base that a problem comes from, by the names in its origin; by its category without one."""
    if problem.origin is None:
        return SourceFamily.NCCL if category(problem) is Category.COLLECTIVE else SourceFamily.KERNELS
    found = (family for family, names in _BY_CODE_BASE if any(name in problem.origin for name in names))
    return next(found, SourceFamily.OTHER)


@dataclass(frozen=True, kw_only=True)
class Look:
    """A look for a public implementation that is faster than collectives between kernels, by fusing or overlapping.

    `date` says when, `where` in what. `found` names it, with its `address`; empty where none is known.
    """

    date: str
    where: str
    found: str = ""
    address: str = ""

    def __post_init__(self) -> None:
        if not self.date or not self.where or bool(self.found) != bool(self.address):
            raise ValueError(f"a look needs a date and where, and what was found an address: {self}")


_SEARCHED = "a search of documentation pages of libraries and repositories"

LOOKS: Mapping[str, Look] = {
    "torchharmonics_spherical_convolution": Look(
        date="2026-11-26",
        where=_SEARCHED,
        found="torch-harmonics, with an optimized kernel and an order of collectives that carries less",
        address="https://nvidia.github.io/torch-harmonics/api/generated/"
        "torch_harmonics.distributed.DistributedDiscreteContinuousConvS2.html",
    ),
    "hyena_forward_cp": Look(date="2026-11-26", where=_SEARCHED),
    "sam3_allgather_iou_suppression": Look(date="2026-11-26", where=_SEARCHED),
    "vocab_parallel_log_prob_topk": Look(date="2026-11-26", where=_SEARCHED),
}
"""By slug; for the other problems nobody has looked. It decides nothing of a judgement: no revision counts it."""
