"""The API's outputs about problems, profiles, boards, nodes and the caller."""

from typing import Any

from rest_framework import serializers

from evaluator.contract import Backend, Primitive, SlotState
from evaluator.hardware.machines import Peaks
from evaluator.hardware.profiles import Profile
from portal.accounts.models import ApiToken, TokenScope
from portal.api.fields import CopiedFields, Made, address, shows, values_of
from portal.catalog.queries import SizeRow, judging_profiles, size_rows
from portal.nodes.models import Node, Slot
from portal.ranking.queries import BoardRow
from portal.runs.prompts import statement_of, values_told
from portal.submissions.forms import starters
from portal.submissions.models import Quarantine
from portal.submissions.quotas import Forecast, Limit, Price
from problems import registry
from problems.spec.schema import Argument, Axis, Cost, Output, Problem, Regime, SizeName, Tolerance

_Words = serializers.ListField(child=serializers.CharField())


@shows(Cost, "flops memory_bytes wire_bytes reference_wire_bytes note")
class CostOutput(CopiedFields):
    """What one call costs each rank at the least, at two bytes per element (bfloat16).

    Attributes:
        flops: Operations by kind of arithmetic.
        memory_bytes: Device-memory bytes read and written.
        wire_bytes: Minimum bytes in one direction over the interconnect.
        reference_wire_bytes: Bytes that the reference sends in one direction.
    """


@shows(SizeRow, "name world_size system dims cost")
class SizeOutput(CopiedFields):
    """One size at one world size.

    Attributes:
        system: The real workload behind the size, or the purpose of the size.
        dims: Value of each dimension symbol.
    """

    name = serializers.ChoiceField(choices=values_of(SizeName))
    cost = CostOutput()


@shows(Tolerance, "atol rtol rms scope is_exact")
class ToleranceOutput(CopiedFields):
    """An element is correct when |x - ref| <= atol * rms(ref) + rtol * |ref|.

    Attributes:
        rms: Largest relative rms error, or null.
    """


@shows(Argument, "name kind count shape dtype values replicated mutable")
class ArgumentOutput(CopiedFields):
    """One parameter of `solution`.

    Attributes:
        dtype: A torch dtype, or `input` for the evaluation's.
        replicated: Whether every rank receives the same values.
        mutable: Whether a solution may write to it.
    """

    count = serializers.CharField(
        allow_null=True, help_text="The length of a list of tensors, if the problem fixes it."
    )
    shape = serializers.ListField(
        child=serializers.CharField(), read_only=True, help_text="Dimension symbols and numbers as text."
    )
    values = Made(
        lambda argument, context: values_told(argument, has_hints=context["has_hints"]),
        str,
        help_text="How its values are generated, where hints are asked for.",
    )


@shows(Output, "name shape dtype placement sharding argument layout is_list tolerance")
class OutputOutput(CopiedFields):
    """One tensor that `solution` returns or writes.

    Attributes:
        argument: The argument it is written to, or null.
        is_list: Whether it is a list of tensors. The list's length is then the first dimension of the shape.
    """

    shape = serializers.ListField(
        child=serializers.CharField(), read_only=True, help_text="Dimension symbols and numbers as text."
    )
    tolerance = ToleranceOutput()


@shows(
    Problem,
    "number slug title summary parallelism communication block stage domain world_size_rule profiles revision "
    "is_open url",
)
class ProblemBrief(CopiedFields):
    """A problem as a list shows it.

    Attributes:
        world_size_rule: The allowed world sizes, in words.
    """

    profiles = Made(
        lambda problem, _: [profile.name for profile in judging_profiles(problem)],
        list[str],
        help_text="The profiles with an allowed world size.",
    )
    revision = Made(
        lambda problem, _: registry.revision(problem.slug),
        str,
        help_text="Hash over everything that affects an evaluation. Standings belong to a revision.",
    )
    is_open = Made(
        lambda problem, context: problem.slug not in context["closed"],
        bool,
        help_text="Whether it accepts submissions now.",
    )
    url = address("api:problem", slug="slug")


@shows(Axis, "name symbol unit fixed values")
class AxisOutput(CopiedFields):
    """What mode sweep varies.

    Attributes:
        symbol: What names of points call it, as in base:M=512.
        unit: Of its values.
        fixed: What stays as it is, in words.
        values: By the size around which they lie: tiny on CPU ranks, base on others.
    """


@shows(Regime, "name described")
class RegimeOutput(CopiedFields):
    """Legal inputs other than usual ones, which checks draw alone and together with others.

    Attributes:
        name: What verdicts and `--regime NAME` call it.
        described: What holds in its calls, with the ranges of its numbers.
    """


@shows(
    Problem,
    "origin signature arguments outputs groups invariants regimes sizes axes notes statement reference starters",
)
class ProblemDetail(ProblemBrief):
    """A problem with everything needed to solve it.

    Attributes:
        origin: The system that the workload comes from, or null.
        groups: The process groups that it uses, in words.
        invariants: What is the same in every legal call, in words.
    """

    arguments = ArgumentOutput(many=True)
    outputs = OutputOutput(many=True)
    regimes = RegimeOutput(many=True)
    sizes = Made(
        lambda problem, _: SizeOutput(_sizes(problem), many=True).data,
        SizeOutput(many=True),
        help_text="Every size at every world size of its profiles.",
    )
    axes = AxisOutput(many=True, help_text="Along which mode sweep can time it: one, or none.")
    notes = Made(
        lambda problem, context: list(problem.notes) if context["has_hints"] else [],
        list[str],
        help_text="What else hints say.",
    )
    statement = Made(
        lambda problem, context: statement_of(problem, has_hints=context["has_hints"]),
        str,
        help_text="Markdown with mathematics: what is asked and which inputs are legal, or the whole with hints.",
    )
    reference = Made(
        lambda problem, _: registry.reference_source(problem.slug), str, help_text="Source of the baseline."
    )
    starters = Made(
        lambda problem, _: starters(problem.slug),
        serializers.DictField(child=serializers.CharField()),
        help_text="A first program for every backend, by its name.",
    )


def _sizes(problem: Problem) -> list[SizeRow]:
    ranks = sorted({profile.world_size for profile in judging_profiles(problem)})
    return [row for world_size in ranks for row in size_rows(problem, world_size=world_size)]


@shows(Peaks, "bf16_flops fp8_flops fp32_flops fp64_flops memory_bytes_s wire_bytes_s source")
class PeaksOutput(CopiedFields):
    """Datasheet ceilings of one GPU.

    Attributes:
        wire_bytes_s: One way.
    """


@shows(
    Profile,
    "name title device gpu world_size process_group backends sizes is_ranked_by_speed sandbox multicast peaks "
    "slots_online",
)
class ProfileOutput(CopiedFields):
    """Hardware and world size together.

    Attributes:
        sizes: The sizes that each mode judges.
        is_ranked_by_speed: False on practice profiles: times are indicative there, or nothing is timed (gpu1r2).
        sandbox: The requirements of mode ranked.
        multicast: Whether NVLink multicast may be used.
    """

    peaks = PeaksOutput(allow_null=True)
    slots_online = Made(
        lambda profile, context: context["slots_online"].get(profile.name, 0),
        int,
        help_text="Slots that judge on it now.",
    )


@shows(
    BoardRow,
    "place author backend score low high overlaps_above submitted_at submission_id evaluation_id is_source_public "
    "recorded primitives",
)
class BoardRowOutput(CopiedFields):
    """An author's best accepted ranked evaluation.

    Attributes:
        place: Null on practice boards.
        score: Speedup over the reference. Null where ranks share a GPU and nothing is timed.
        low: Lower end of its interval. The board is ordered by it. Null where nothing is timed.
        overlaps_above: Whether its interval overlaps that of the entry above.
        recorded: Set where it was judged elsewhere: when and on what. Empty for what this site judged.
    """

    backend = serializers.ChoiceField(choices=values_of(Backend))
    score = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    primitives = serializers.ListField(
        child=serializers.ChoiceField(choices=values_of(Primitive)), help_text="The hardware paths that it uses."
    )

    def to_representation(self, instance: Any) -> dict[str, Any]:
        """The row, without figures where nothing was timed."""
        shown = super().to_representation(instance)
        return shown | dict.fromkeys(("score", "low", "high")) if shown["low"] == 0 else shown


@shows(Quarantine, "author submission_id is_source_public reason at")
class QuarantinedEntryOutput(CopiedFields):
    """An entry that operators removed from the board: it has no place, and its page stays.

    Attributes:
        at: Since when.
    """

    author = serializers.CharField()
    is_source_public = serializers.BooleanField()


class BoardOutput(serializers.Serializer[Any]):
    """A part of a problem's board on a profile."""

    problem = serializers.CharField()
    revision = serializers.CharField()
    profile = serializers.CharField()
    backend = serializers.CharField(allow_null=True)
    primitive = serializers.CharField(allow_null=True)
    is_ranked_by_speed = serializers.BooleanField()
    score_rule = serializers.IntegerField(help_text="The timing rule of every score in `entries`.")
    total = serializers.IntegerField(
        help_text="Number of entries on the whole board, over all backends and primitives."
    )
    next = serializers.URLField(allow_null=True, help_text="The next page.")
    previous = serializers.URLField(allow_null=True, help_text="The previous page.")
    entries = BoardRowOutput(many=True)
    quarantined = QuarantinedEntryOutput(
        many=True, help_text="Entries that operators removed from the board, at most 50, the last first."
    )


@shows(Slot, "index profile state note")
class SlotOutput(CopiedFields):
    """A slot judges one evaluation at a time."""

    state = serializers.ChoiceField(choices=values_of(SlotState))


@shows(Node, "name is_online is_enabled seen_at sandbox backends running slots environment owner is_revoked")
class NodeOutput(CopiedFields):
    """A machine that judges."""

    is_online = serializers.BooleanField()
    backends = _Words
    running = serializers.IntegerField(help_text="Evaluations in progress.")
    slots = SlotOutput(many=True)
    environment = serializers.DictField(child=serializers.CharField())
    owner = serializers.CharField(
        source="owner_slug",
        help_text="The organisation that owns the node; empty for this site's own.",
    )
    is_revoked = serializers.BooleanField(help_text="Whether its key was revoked.")


@shows(ApiToken, "name prefix scopes expires_at")
class TokenOutput(CopiedFields):
    """The token of this call; its secret is kept nowhere."""

    scopes = serializers.ListField(child=serializers.ChoiceField(choices=TokenScope.values))


@shows(Price, "gpus usual_gpu_s reserved_gpu_s at_most_gpu_s")
class PriceOutput(CopiedFields):
    """What one evaluation on a profile costs, in GPU-seconds: seconds of judging times GPUs.

    Attributes:
        gpus: GPUs that it occupies; 0 on a practice profile, which costs nothing.
        usual_gpu_s: Mean of recent evaluations on it.
        reserved_gpu_s: Reserved while it waits.
        at_most_gpu_s: The cost if it runs until the site ends it.
    """


@shows(
    Limit,
    "profile limit_gpu_s used_gpu_s reserved_gpu_s remaining_gpu_s next_release_at queued queued_at_most new_until "
    "reason",
)
class LimitOutput(CopiedFields):
    """One limit, with use and remainder.

    Attributes:
        profile: Empty: all profiles together.
        limit_gpu_s: In any 24 hours; null: no limit.
        used_gpu_s: Charged in the last 24 hours.
        reserved_gpu_s: Reserved for evaluations that have not ended.
        next_release_at: When the oldest use stops counting.
        queued: Evaluations that have not ended.
        new_until: Until when the account is new and has a smaller allowance.
        reason: The operator's reason.
    """


@shows(Forecast, "profile=price.profile price judgements remaining_gpu_s renews_at words allowances")
class ForecastOutput(CopiedFields):
    """The cost of one more evaluation on a profile, and what is left of the allowance.

    Attributes:
        judgements: How many more evaluations fit now; null: no limit.
        remaining_gpu_s: Null: no limit, or it uses no GPU time.
        renews_at: When the oldest use stops counting.
        words: The same in sentences, as on the submit page.
    """

    price = PriceOutput()
    allowances = LimitOutput(many=True, help_text="Every limit that applies.")


class MeOutput(serializers.Serializer[Any]):
    """Who is calling, by which token, and what of the queue is theirs."""

    username = serializers.CharField()
    token = TokenOutput(allow_null=True, help_text="Null with a browser's session.")
    queued = serializers.IntegerField(help_text="Own evaluations that have not ended.")
    queued_limit = serializers.IntegerField(allow_null=True, help_text="Null: no limit.")
