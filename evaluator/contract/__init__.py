"""All messages between the site and a judge: requests, progress, reports, node status.

Everything here is frozen, typed and JSON both ways; decoding ignores unknown fields and refuses wrong types. The
package imports no other part of the evaluator, so the site can read it without torch.
"""

from evaluator.contract.base import (
    MOST_BUILDERS,
    MOST_ERROR_MAPS,
    MOST_MAPS_OF_A_RANK,
    MOST_POINTS,
    MOST_REPORT_BYTES,
    SCHEMA_VERSION,
    VERSION,
    ContractError,
    Message,
    read_fields,
)
from evaluator.contract.code import (
    Detection,
    EvidenceSource,
    Instruction,
    KernelCode,
    MachineCode,
    Primitive,
    RecordedWork,
    WorkKind,
    WorkTotal,
)
from evaluator.contract.findings import ErrorMap, ErrorPattern, Finding, OutputCheck, SizeMemory, SizeResult, Verdict
from evaluator.contract.node_messages import (
    MOST_BYTES,
    MOST_COMPRESSED_BYTES,
    MOST_STATUS_BYTES,
    Assignment,
    BuildOrder,
    Cancellation,
    Delivery,
    NodeMessage,
    NodeStatus,
    Progress,
    Receipt,
    SlotState,
    SlotStatus,
    TaskName,
    node_queue,
)
from evaluator.contract.record import (
    MOMENT_ALONE,
    MOMENT_PHASE,
    MOMENT_REVEALING,
    SCORE_RULE,
    Baseline,
    BaselineTable,
    CallKind,
    CallRecord,
    ClockKind,
    GpuReading,
    LinkTraffic,
    Record,
    ReferenceCall,
    SizeRecord,
    TimingRules,
)
from evaluator.contract.report import (
    PUBLISHED_TIMED_CALLS,
    PUBLISHED_WARM_CALLS,
    BufferKind,
    BuildResult,
    Canary,
    Collective,
    DriverFault,
    EvaluationReport,
    PublishedTime,
    RankState,
    SandboxLevel,
    SizeTiming,
    Stage,
    StageTime,
    SweepPoint,
    TimeSummary,
    Timing,
    is_faster,
    is_informative,
    request_fields,
)
from evaluator.contract.request import Backend, EarlierTry, EvaluationRequest, Mode, SourceBundle, SourceFile
from evaluator.contract.timeline import CallTimeline, RankTimeline, Span, SpanKind, Timeline, WorkName
