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
_TORCH = "https://docs.pytorch.org/docs/main/distributed/symmetric_memory.html"
_DEEPEP = "https://github.com/deepseek-ai/DeepEP"
_KCP = "https://github.com/fla-org/flash-linear-attention/blob/main/fla/ops/cp/KCP.md"
_FUSED_ADAM = "https://github.com/NVIDIA/apex/blob/master/apex/contrib/optimizers/distributed_fused_adam.py"
_ULYSSES = "https://docs.flashinfer.ai/generated/flashinfer.comm.ulysses_a2a.html"

_FOUND = {
    "allreduce": ("PyTorch, torch.ops.symm_mem.one_shot_all_reduce and multimem_all_reduce_", _TORCH),
    "allgather": ("PyTorch, torch.ops.symm_mem.multimem_all_gather_out", _TORCH),
    "broadcast": (
        "NVSHMEM, broadcast",
        "https://docs.nvidia.com/nvshmem/api/latest/api/language_bindings/python/collectives.html",
    ),
    "reduce": ("PyTorch, torch.ops.symm_mem.multimem_one_shot_reduce_out", _TORCH),
    "reducescatter": ("PyTorch, torch.ops.symm_mem.reduce_scatter_out", _TORCH),
    "alltoall": ("PyTorch, torch.ops.symm_mem.nvshmem_all_to_all", _TORCH),
    "embedding_lookup": (
        "WholeGraph, wholememory_gather",
        "https://docs.nvidia.com/cugraph/26.10/api_docs/wholegraph/libwholegraph/tensor_graph_operations/",
    ),
    "allgather_gemm": ("PyTorch, torch.ops.symm_mem.fused_all_gather_matmul", _TORCH),
    "gemm_allreduce": (
        "Triton-distributed, GEMM + all-reduce on Hopper",
        "https://github.com/ByteDance-Seed/Triton-distributed",
    ),
    "combined_sharded_gemms": (
        "PyTorch, torch.ops.symm_mem.fused_all_gather_matmul and fused_matmul_reduce_scatter, for its two ends",
        _TORCH,
    ),
    "gemm_reducescatter": ("PyTorch, torch.ops.symm_mem.fused_matmul_reduce_scatter", _TORCH),
    "moe_token_preprocess": ("DeepEP, Buffer.get_dispatch_layout, for its counts", _DEEPEP),
    "moe_all2all_primitive": ("PyTorch, torch.ops.symm_mem.all_to_all_vdev", _TORCH),
    "moe_pre_all2all": ("DeepEP, Buffer.dispatch", _DEEPEP),
    "moe_post_all2all": ("DeepEP, Buffer.combine", _DEEPEP),
    "ulysses_all_to_all_tensor_primitive": (
        "fast-ulysses, torch.ops.fast_ulysses.all_to_all_4d",
        "https://pypi.org/project/fast-ulysses/",
    ),
    "ulysses_all_gather_into_tensor_primitive": ("PyTorch, torch.ops.symm_mem.multimem_all_gather_out", _TORCH),
    "ulysses_gather_seq_scatter_heads": ("FlashInfer, UlyssesCommunicator.scatter_heads", _ULYSSES),
    "ulysses_gather_heads_scatter_seq": ("FlashInfer, UlyssesCommunicator.gather_heads", _ULYSSES),
    "ulysses_attention_e2e": ("FlashInfer, UlyssesCommunicator, for its two exchanges", _ULYSSES),
    "ddp": (
        "PyTorch, DistributedDataParallel, which overlaps buckets with the backward pass",
        "https://docs.pytorch.org/docs/stable/notes/ddp.html",
    ),
    "zero1_optimizer_shard": ("Apex, DistributedFusedAdam", _FUSED_ADAM),
    "zero2_optimizer_shard_grad": (
        "DeepSpeed, ZeRO stage 2 with overlap_comm",
        "https://huggingface.co/docs/transformers/deepspeed",
    ),
    "fused_adam_grad_unshard_allgather": ("Apex, DistributedFusedAdam with overlap_param_sync", _FUSED_ADAM),
    "quantized_grad_allreduce": ("DeepSpeed, ZeRO++ with quantized gradients", "https://deepspeed.ai/tutorials/zeropp"),
    "fsdp_step_e2e": (
        "PyTorch, fully_shard, which overlaps all-gathers with compute",
        "https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html",
    ),
    "fused_moe_fwd": ("DeepEP, for its dispatch and combine", _DEEPEP),
    "moe_ep_balanced": ("DeepEP, for its dispatch and combine", _DEEPEP),
    "moe_ep_wide": ("DeepEP, for its dispatch and combine", _DEEPEP),
    "moe_ep_narrow": ("DeepEP, for its dispatch and combine", _DEEPEP),
    "ring_attention": (
        "Transformer Engine, DotProductAttention with cp_comm_type p2p",
        "https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/api/pytorch.html",
    ),
    "physicsnemo_distributed_rfft": ("cuFFTMp, in slabs", "https://docs.nvidia.com/cuda/cufftmp"),
    "physicsnemo_distributed_irfft": ("cuFFTMp, in slabs", "https://docs.nvidia.com/cuda/cufftmp"),
    "gnn_neighbor_sampling": (
        "WholeGraph, GraphStructure.multilayer_sample_without_replacement",
        "https://docs.nvidia.com/cugraph/26.10/api_docs/wholegraph/pylibwholegraph/graph_storage_operations/",
    ),
    "gnn_sparse_feature_fetch_projection": (
        "WholeGraph, wholememory_gather, for its fetch",
        "https://docs.nvidia.com/cugraph/26.10/api_docs/wholegraph/libwholegraph/tensor_graph_operations/",
    ),
    "vocab_parallel_cross_entropy_loss": (
        "Transformer Engine, parallel_cross_entropy in Triton",
        "https://docs.nvidia.com/nemo/automodel/latest/_modules/nemo_automodel/components/loss/te_parallel_ce.html",
    ),
    "fla_kimi_delta_attention_cp_tp": ("flash-linear-attention, KCP, for its context parallelism", _KCP),
    "fla_gated_deltanet_cp": ("flash-linear-attention, KCP", _KCP),
    "conv2d_boundary_exchange": (
        "Apex, halo exchangers of its spatial bottleneck",
        "https://github.com/NVIDIA/apex/blob/master/apex/contrib/bottleneck/halo_exchangers.py",
    ),
}
_SOUGHT_IN_VAIN = ("hyena_forward_cp", "sam3_allgather_iou_suppression", "vocab_parallel_log_prob_topk")

LOOKS: Mapping[str, Look] = {
    "torchharmonics_spherical_convolution": Look(
        date="2026-11-26",
        where=_SEARCHED,
        found="torch-harmonics, with an optimized kernel and an order of collectives that carries less",
        address="https://nvidia.github.io/torch-harmonics/api/generated/"
        "torch_harmonics.distributed.DistributedDiscreteContinuousConvS2.html",
    ),
    **{slug: Look(date="2026-11-26", where=_SEARCHED) for slug in _SOUGHT_IN_VAIN},
    **{
        slug: Look(date="2026-11-27", where=_SEARCHED, found=found, address=address)
        for slug, (found, address) in _FOUND.items()
    },
}
"""By slug; for the other problems nobody has looked. It decides nothing of a judgement: no revision counts it.

What is found does the same work on GPUs, or the part that it names, in kernels of its own or overlapped. Nobody has
judged it here: its shapes, dtypes and precision may be others.
"""
