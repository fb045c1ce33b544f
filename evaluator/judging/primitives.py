"""Which hardware paths a submission uses, by its text, and by the machine code and symbols of its extensions.

A detection says what was seen and where, not that the path carries the problem's data. A TMA instruction may load from
the rank's own memory, and a mapped peer buffer may stay unused.
"""

import ast
import re
from collections.abc import Iterator, Sequence

from evaluator.contract import Detection, EvidenceSource, Primitive, SourceBundle, SourceFile
from evaluator.judging.collectives import dotted
from evaluator.judging.parsed_source import without_comments

_IN_TEXT: tuple[tuple[Primitive, re.Pattern[str]], ...] = (
    (
        Primitive.NVLS,
        re.compile(r"\bmultimem[.\w]*|\bcuMulticast\w+|\bmulticast_ptr\w*|\bnvshmemx_mc_ptr\b|\bnccl\w*Multimem\w*"),
    ),
    (
        Primitive.TMA,
        re.compile(
            r"\bcp\.(?:reduce\.)?async\.bulk[.\w]*|\bcuTensorMapEncode\w+|\bcp_async_bulk\w*"
            r"|\bmake_tensor_descriptor\b|\bTensorDescriptor\b"
        ),
    ),
    (Primitive.NVSHMEM, re.compile(r"\bnvshmemx?_\w+|\bnvshmem\.core\b|\blibshmem_device\b")),
    (
        Primitive.NCCL_DEVICE,
        re.compile(r"\bncclDevComm\w*|\bnccl(?:Get)?Lsa\w+|\bncclGetPeerPointer\b|\bncclGin\w*|\bnccl_device\.h\b"),
    ),
    (
        Primitive.NCCL,
        re.compile(
            r"\bnccl(?:AllReduce|AllGather|ReduceScatter|Broadcast|Bcast|Reduce|Send|Recv|AlltoAll|AllToAll|Gather|Scatter)\b"
        ),
    ),
    (Primitive.COPY_ENGINE, re.compile(r"\b(?:cudaMemcpyPeer|cuMemcpyPeer|cudaMemcpy3DPeer|cudaMemcpyBatch)\w*")),
    (
        Primitive.SM_LOAD_STORE,
        re.compile(
            r"\bsignal_pad_ptrs(?:_dev)?\b|\bcudaIpcOpenMemHandle\b|\bcudaDeviceEnablePeerAccess\b|\bTKParallelTensor\b"
            r"|(?<![\w.])(?:ld|st|atom|red)\.[\w.]*\bsys\b[\w.]*|\batomic\w+_system\b|\bthread_scope_system\b"
        ),
    ),
)
"""What names in a source show. `_copies_and_loads` decides what reads a mapped buffer."""

_MAPPED = re.compile(r"\.get_(?:buffer|remote_tensors?)\s*\(|\bbuffer_ptrs(?:_dev)?\b")
_COPY = re.compile(r"\.copy_\s*\(")

_IN_CODE: tuple[tuple[Primitive, re.Pattern[str], str], ...] = (
    (Primitive.NVLS, re.compile(r"\bLDGMC\b[.\w]*"), "multicast load"),
    (Primitive.TMA, re.compile(r"\b(?:UBLKCP|UBLKRED|UTMALDG|UTMASTG|UTMAREDG)\b[.\w]*"), "bulk asynchronous copy"),
    (
        Primitive.SM_LOAD_STORE,
        re.compile(r"(?<![\w.])(?:LDG?|STG?|ATOMG?|REDG?)\.[.\w]*STRONG\.SYS\b"),
        "access at system scope",
    ),
)
"""Instructions of sm_90 and later as `cuobjdump -sass` prints them (seen with CUDA 13.0: tests/evaluator/listings).

A multicast store is none of them: it is an ordinary store to a multicast address, which only PTX shows."""

_IN_PTX: tuple[tuple[Primitive, re.Pattern[str], str], ...] = (
    (Primitive.NVLS, re.compile(r"\bmultimem\.[.\w]+"), "multicast instruction"),
    (Primitive.TMA, re.compile(r"\bcp\.(?:reduce\.)?async\.bulk\.[.:\w]+"), "bulk asynchronous copy"),
    (
        Primitive.SM_LOAD_STORE,
        re.compile(r"(?<![\w.])(?:ld|st|atom|red)\.[\w.]*\bsys\b[\w.]*"),
        "access at system scope",
    ),
)
"""The same in the PTX that our compile commands keep beside the machine code."""

_IN_SYMBOLS: tuple[tuple[Primitive, bytes], ...] = (
    (Primitive.NVLS, rb"cuMulticast\w+"),
    (Primitive.NVSHMEM, rb"nvshmemx?_\w+"),
    (Primitive.NCCL_DEVICE, rb"ncclDevCommCreate"),
    (Primitive.NCCL, rb"nccl(?:AllReduce|AllGather|ReduceScatter|Broadcast|Bcast|Reduce|Send|Recv|AlltoAll|AllToAll)"),
    (Primitive.COPY_ENGINE, rb"(?:cudaMemcpyPeer|cuMemcpyPeer|cudaMemcpy3DPeer|cudaMemcpyBatch)\w*"),
    (Primitive.SM_LOAD_STORE, rb"cudaIpcOpenMemHandle|cudaDeviceEnablePeerAccess"),
)
"""What a module calls, or looks up by name: whole strings in its bytes."""

_DETAIL_CHARACTERS = 300
"""How much of a name or instruction a detection shows: a submission may choose them."""

_FUNCTION = re.compile(r"^\s*(?:Function : (?P<name>\S+)|(?:\.visible |\.weak )?\.(?:entry|func) (?P<ptx>[\w$]+))")
_PTX_BEGINS = "Fatbin ptx code:"
_SASS_BEGINS = "Fatbin elf code:"
_USERS = (Primitive.TMA, Primitive.SM_LOAD_STORE)
_COLLECTIVE_OWNERS = ("dist", "torch.distributed")


def in_source(bundle: SourceBundle, *, collectives: frozenset[str]) -> tuple[Detection, ...]:
    """What the text shows, comments aside; at most one detection per primitive and file, its first.

    Args:
        bundle: all files of a submission.
        collectives: names of torch.distributed's functions that move tensors (NCCL carries them on a GPU).
    """
    return tuple(detection for file in bundle.files for detection in _in_file(file, collectives))


def in_machine_code(listing: str, *, module: str) -> tuple[Detection, ...]:
    """What the disassembly of one module shows; one detection per primitive, naming the first function and how many.

    How NVSHMEM's own functions reach a peer is not counted as the submission's loads and stores.

    Args:
        listing: what `cuobjdump -sass`, then `cuobjdump -all -ptx` printed; or PTX alone, as `ptx_listing` gives it.
        module: the module's file name, for the evidence.
    """
    function, is_nvshmem, table = "?", False, _IN_CODE
    in_sass: dict[Primitive, tuple[str, str, int]] = {}
    in_ptx: dict[Primitive, tuple[str, str, int]] = {}
    seen = in_sass
    for line in listing.splitlines():
        if line.startswith((_PTX_BEGINS, _SASS_BEGINS)):
            table, seen = (_IN_PTX, in_ptx) if line.startswith(_PTX_BEGINS) else (_IN_CODE, in_sass)
        if found := _FUNCTION.match(line):
            whole = found["name"] or found["ptx"]
            function, is_nvshmem = whole[:_DETAIL_CHARACTERS], "nvshmem" in whole.lower()
            if is_nvshmem:
                seen.setdefault(Primitive.NVSHMEM, ("device function", function, 0))
            continue
        for primitive, pattern, words in table:
            if instruction := pattern.search(line):
                if primitive is Primitive.SM_LOAD_STORE and is_nvshmem:
                    continue
                what, where, count = seen.get(
                    primitive, (f"{words} ({instruction[0][:_DETAIL_CHARACTERS]})", function, 0)
                )
                seen[primitive] = (what, where, count + 1)
    if Primitive.NVLS in in_ptx and Primitive.SM_LOAD_STORE not in in_ptx:
        in_sass.pop(Primitive.SM_LOAD_STORE, None)  # those are the multicast stores, as machine code shows them
    return tuple(
        Detection(
            primitive=primitive,
            evidence=EvidenceSource.COMPILED,
            detail=f"{what} in {where}" + (f", {count} such instructions in the module" if count > 1 else ""),
            file=module,
        )
        for primitive, (what, where, count) in sorted((in_ptx | in_sass).items())
    )


def ptx_listing(text: str) -> str:
    """A file of PTX in the form in which `in_machine_code` reads a module's."""
    return f"{_PTX_BEGINS}\n{text}"


def in_symbols(content: bytes, *, module: str) -> tuple[Detection, ...]:
    """What the names in the bytes of one module show; one detection per primitive, its first name."""
    return tuple(
        Detection(
            primitive=primitive,
            evidence=EvidenceSource.COMPILED,
            detail=f"the symbol {found[1][:_DETAIL_CHARACTERS].decode()}",
            file=module,
        )
        for primitive, names in _IN_SYMBOLS
        if (found := re.search(rb"\0(%s)[\0@]" % names, content))
    )


def _in_file(file: SourceFile, collectives: frozenset[str]) -> Iterator[Detection]:
    code = without_comments(file)
    for primitive, pattern in _IN_TEXT:
        if found := pattern.search(code):
            yield _detection(primitive, found[0], file, code, found.start())
    yield from _copies_and_loads(file, code)
    if file.path.endswith(".py") and (call := _first_collective(file, collectives)) is not None:
        name, line = call
        yield Detection(
            primitive=Primitive.NCCL, evidence=EvidenceSource.SOURCE, detail=name, file=file.path, line=line
        )


def _copies_and_loads(file: SourceFile, code: str) -> Iterator[Detection]:
    """A peer's mapped buffer with `copy_` beside it runs on the copy engine or as a kernel; without, kernels use it.

    Where bulk copies or accesses at system scope are named as well, these are taken to be what uses it.
    """
    buffer = _MAPPED.search(code)
    if buffer is None:
        return
    if copy := _COPY.search(code):
        yield _detection(Primitive.COPY_ENGINE, "copy_ beside a peer's mapped buffer", file, code, copy.start())
    elif not any(pattern.search(code) for primitive, pattern in _IN_TEXT if primitive in _USERS):
        detail = "a peer's mapped buffer is read or written by kernels"
        yield _detection(Primitive.SM_LOAD_STORE, detail, file, code, buffer.start())


def _detection(primitive: Primitive, detail: str, file: SourceFile, code: str, at: int) -> Detection:
    line = code.count("\n", 0, at) + 1
    return Detection(
        primitive=primitive,
        evidence=EvidenceSource.SOURCE,
        detail=detail[:_DETAIL_CHARACTERS],
        file=file.path,
        line=line,
    )


def _first_collective(file: SourceFile, collectives: frozenset[str]) -> tuple[str, int] | None:
    try:
        tree = ast.parse(file.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
    for call in sorted(calls, key=lambda node: node.lineno):
        assert isinstance(call.func, ast.Attribute)
        owner = dotted(call.func.value)
        if owner in _COLLECTIVE_OWNERS and call.func.attr in collectives:
            return f"{owner}.{call.func.attr}", call.lineno
    return None


def names(detections: Sequence[Detection]) -> tuple[Primitive, ...]:
    """The detected primitives, each once, in the order of the enumeration."""
    found = {detection.primitive for detection in detections}
    return tuple(primitive for primitive in Primitive if primitive in found)
