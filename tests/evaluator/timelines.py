"""Recorded calls as tests need them: of two GPUs, made by hand."""

from typing import Any

from evaluator.contract import CallTimeline, RankTimeline, Span, SpanKind, WorkName

GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_bf16>(Params)"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
OWN = "push_tiles(__nv_bfloat16 const*, __nv_bfloat16*, int)"
PEER_COPY = "Memcpy PtoP (Device -> Device)"
SYNCHRONISE = "cudaStreamSynchronize"


def call(*ranks: list[tuple[Any, ...]], lanes: dict[SpanKind, int] | None = None) -> CallTimeline:
    """A call of these spans per rank, on one stream but for `lanes`.

    A span is its kind, name, start and duration in us, and the flow of a launch and of its work where there is one.
    """
    where = {SpanKind.LAUNCH: 2, SpanKind.WAIT: 2, SpanKind.COLLECTIVE: 2, SpanKind.OPERATOR: 2} | (lanes or {})
    names: dict[str, int] = {}
    timelines = []
    for rank, spans in enumerate(ranks):
        made = tuple(
            Span(
                kind=kind,
                lane=where.get(kind, 0),
                name=names.setdefault(name, len(names)),
                start_ns=start * 1000,
                ns=us * 1000,
                bytes=us * 100_000 if kind is SpanKind.COPY else 0,
                flow=flow[0] if flow else 0,
            )
            for kind, name, start, us, *flow in spans
        )
        last = max((span.end_ns for span in made), default=0)
        timelines.append(
            RankTimeline(
                rank=rank,
                lanes=("stream 7", "stream 13", "host"),
                spans=made,
                begin_ns=0,
                end_ns=last,
                uncertainty_ns=1500,
            )
        )
    shapes = {GEMM: WorkName(name=GEMM, grid=(132, 1, 1), block=(384, 1, 1), registers=168, shared_bytes=213_000)}
    return CallTimeline(names=tuple(shapes.get(name, WorkName(name=name)) for name in names), ranks=tuple(timelines))
