"""The one vocabulary of parallelism, building blocks, communication, stages and domains.

Every spec uses these enumerations, and the taxonomy browser draws its axes from them; `label` is what people read.
"""

from enum import StrEnum
from typing import Self


class Labelled(StrEnum):
    """A string enumeration whose members carry the wording shown to people."""

    label: str

    def __new__(cls, value: str, label: str) -> Self:
        """A member from its value and its label."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.label = label
        return member


class Parallelism(Labelled):
    """How the work or the data of a problem is split over ranks."""

    DATA = "data", "Data"
    FSDP = "fsdp", "Fully sharded data"
    ZERO = "zero", "ZeRO optimizer sharding"
    TENSOR = "tensor", "Tensor"
    VOCAB = "vocab", "Vocabulary"
    SEQUENCE = "sequence", "Sequence"
    CONTEXT = "context", "Context"
    EXPERT = "expert", "Expert"
    PIPELINE = "pipeline", "Pipeline"
    SPATIAL = "spatial", "Spatial"
    GRAPH = "graph", "Graph"
    TABLE = "table", "Embedding table"


class BlockGroup(Labelled):
    """The families under which the taxonomy browser gathers its blocks."""

    PRIMITIVE = "primitive", "Communication primitives"
    TRANSFORMER = "transformer", "Transformer block"
    TRAINING = "training_step", "Training step"
    SCIENCE = "science", "Science and signals"
    DATA = "data_structures", "Graphs, tables and sorting"
    VISION = "vision", "Vision and rendering"


class Block(Labelled):
    """The part of a model or system that a problem is taken from."""

    PRIMITIVE = "primitive", "Collective"
    EMBEDDING = "embedding", "Embedding"
    NORM = "norm", "Normalization"
    ATTENTION = "attention", "Attention"
    MLP = "mlp", "MLP"
    MOE = "moe", "Mixture of experts"
    LOSS = "loss", "Loss"
    GRADIENT = "gradient", "Gradients"
    OPTIMIZER = "optimizer", "Optimizer"
    QUANTIZATION = "quantization", "Quantization"
    CONVOLUTION = "convolution", "Convolution"
    FFT = "fft", "Fourier transform"
    GRAPH = "graph", "Graph learning"
    RECOMMENDER = "recommender", "Recommender"
    SORT = "sort", "Sorting"
    RENDERING = "rendering", "Rendering"
    VISION = "vision", "Vision"


BLOCK_GROUPS: dict[BlockGroup, tuple[Block, ...]] = {
    BlockGroup.PRIMITIVE: (Block.PRIMITIVE,),
    BlockGroup.TRANSFORMER: (Block.EMBEDDING, Block.NORM, Block.ATTENTION, Block.MLP, Block.MOE),
    BlockGroup.TRAINING: (Block.LOSS, Block.GRADIENT, Block.OPTIMIZER, Block.QUANTIZATION),
    BlockGroup.SCIENCE: (Block.CONVOLUTION, Block.FFT),
    BlockGroup.DATA: (Block.GRAPH, Block.RECOMMENDER, Block.SORT),
    BlockGroup.VISION: (Block.RENDERING, Block.VISION),
}
"""Every block belongs to exactly one group (checked by a test)."""


class Communication(Labelled):
    """The communication pattern that the mathematics of a problem asks for."""

    ALL_REDUCE = "all_reduce", "All-reduce"
    ALL_GATHER = "all_gather", "All-gather"
    REDUCE_SCATTER = "reduce_scatter", "Reduce-scatter"
    ALL_TO_ALL = "all_to_all", "All-to-all"
    ALL_TO_ALL_V = "all_to_all_v", "All-to-all-v"
    BROADCAST = "broadcast", "Broadcast"
    REDUCE = "reduce", "Reduce"
    SCATTER = "scatter", "Scatter"
    GATHER = "gather", "Gather"
    SEND_RECV = "send_recv", "Send and receive"


class Stage(Labelled):
    """Where in a model's life the workload occurs."""

    TRAINING = "training", "Training"
    INFERENCE = "inference", "Inference"


class Domain(Labelled):
    """The field that a problem's workload comes from."""

    GENERIC = "generic", "Generic"
    LLM = "llm", "Language models"
    MOE_LLM = "moe-llm", "MoE language models"
    RL = "rl", "Reinforcement learning"
    VISION = "vision", "Vision"
    DIFFUSION_VIDEO = "diffusion-video", "Video diffusion"
    RECOMMENDER = "recommender", "Recommenders"
    GRAPH = "graph", "Graphs"
    SCIENCE = "science", "Science"
    RENDERING = "rendering", "Rendering"
