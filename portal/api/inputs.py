"""What the API takes: bodies and query parameters. Unknown names are refused, never ignored."""

from collections.abc import Mapping
from typing import Any

from django.http import QueryDict
from drf_spectacular.drainage import set_override
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from evaluator.contract import Backend, Mode, Primitive, SourceBundle, Verdict
from evaluator.hardware import profiles
from portal.api.fields import CopiedFields, values_of
from portal.submissions import uploads
from portal.submissions.actions.submit import MAX_NOTES
from portal.submissions.models import State, Visibility
from problems.spec.schema import SizeName

_KEY_LENGTH = 100


class Text(serializers.CharField):
    """A string that came as one: a JSON number or boolean is refused, and blanks are kept."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"trim_whitespace": False, **options})

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Whole(serializers.IntegerField):
    """A whole number of a JSON body: neither `true` nor "1" is one."""

    def to_internal_value(self, data: Any) -> int:
        is_whole = (
            data.is_integer() if isinstance(data, float) else isinstance(data, int) and not isinstance(data, bool)
        )
        if not is_whole:
            self.fail("invalid")
        return super().to_internal_value(int(data))


class Number(serializers.FloatField):
    """A number of a JSON body: neither `true` nor "1.5" is one."""

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        return super().to_internal_value(data)


@extend_schema_field({"type": "string", "enum": list(profiles.profiles())})
class ProfileName(Text):
    """A profile; the document lists them, and the action behind it says which there are."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"max_length": 40, **options})


def patterned(pattern: str, *, max_length: int, **options: Any) -> Text:
    """Text whose form the document describes by a regular expression; the action behind it says what is wrong."""
    text = Text(max_length=max_length, **options)
    set_override(text, "field", {"type": "string", "pattern": pattern, "maxLength": max_length})
    return text


class Choice(serializers.ChoiceField):
    """One of a few words; the message lists them."""

    default_error_messages = {"invalid_choice": "{input} is not one of {known}."}

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str) or data not in self.choices:
            self.fail("invalid_choice", input=repr(data)[:80], known=", ".join(self.choices))
        return data


class Attachment(serializers.FileField):
    default_error_messages = {"invalid": "This is text, not an attached file."}

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_empty_file=True, max_length=200, **options)


class Strict(CopiedFields):
    """A serializer that refuses names it does not know."""

    unknown_code = "unknown_field"
    unknown_message = "There is no such field. {known}"

    def to_internal_value(self, data: Any) -> Any:
        """The validated values; raises ValidationError that names every unknown or wrong field."""
        unknown = sorted(set(data) - set(self.fields)) if isinstance(data, Mapping) else []
        if unknown:
            message = self.unknown_message.format(
                known=f"Choose one of {', '.join(self.fields)}." if self.fields else "Leave it out."
            )
            raise serializers.ValidationError({str(name): [message] for name in unknown}, code=self.unknown_code)
        return super().to_internal_value(data)


class Query(Strict):
    unknown_code = "unknown_parameter"
    unknown_message = "There is no such parameter. {known}"


def read(serializer: type[Strict], data: Any) -> dict[str, Any]:
    """The validated values of a body or a query string; raises ValidationError."""
    # As a plain mapping: REST framework takes an empty value of a form for a missing one.
    checked = serializer(data=data.dict() if isinstance(data, QueryDict) else data)
    checked.is_valid(raise_exception=True)
    return dict(checked.validated_data)


class PagedQuery(Query):
    """Which page of a list."""

    cursor = Text(max_length=500, required=False, help_text="`next` or `previous` of a page.")
    page_size = serializers.IntegerField(min_value=1, max_value=100, required=False, help_text="25 by default.")


class ProblemQuery(Query):
    hints = serializers.BooleanField(
        default=False, help_text="Also what makes a kernel fast, and how inputs are drawn."
    )


class BoardQuery(Query):
    profile = ProfileName(help_text="A profile's name, such as h200x8-nomc.")
    backend = Choice(choices=values_of(Backend), required=False, help_text="Only entries in this backend.")
    primitive = Choice(
        choices=values_of(Primitive), required=False, help_text="Only entries that use this hardware path."
    )
    after = Text(max_length=500, required=False, help_text="`next` of a page: the entries after it.")
    before = Text(max_length=500, required=False, help_text="`previous` of a page: the entries before it.")
    page_size = serializers.IntegerField(
        min_value=1, max_value=200, required=False, help_text="Entries per page; 50 by default."
    )


class SubmissionsQuery(PagedQuery):
    """Which of the user's own submissions; state and verdict are those of the newest evaluation."""

    problem = Text(max_length=100, required=False, help_text="Only submissions for this problem.")
    state = Choice(
        choices=values_of(State),
        required=False,
        help_text="Only submissions whose newest evaluation is in this state.",
    )
    verdict = Choice(
        choices=values_of(Verdict),
        required=False,
        help_text="Only submissions whose newest evaluation has this verdict.",
    )


class NoQuery(Query):
    """An address that takes no parameters."""


class EvaluationInput(Strict):
    """How to judge a submission."""

    profile = ProfileName(help_text="Where to judge it: a name from /api/v1/profiles/.")
    mode = Choice(
        choices=values_of(Mode),
        default=Mode.RANKED.value,
        help_text="check compiles and verifies; profile also records a call of the reference and lists machine code; "
        "benchmark times; ranked also counts on the board.",
    )
    size = Choice(
        choices=["", *values_of(SizeName)],
        default="",
        allow_blank=True,
        help_text="In mode profile, the one size to judge and record. Empty, as in all other modes, for the mode's.",
    )
    node_owner = Text(
        max_length=60,
        default="",
        allow_blank=True,
        help_text="The organisation whose guest nodes judge it, for its own boards. It can read the source. Empty for "
        "the site's nodes.",
    )


class NotesInput(Strict):
    """What an author says of a submission to whoever may open it."""

    notes = Text(max_length=MAX_NOTES, default="", allow_blank=True, help_text="Markdown with mathematics.")
    built_on = Text(
        max_length=200,
        default="",
        allow_blank=True,
        help_text="Id of an earlier submission to the same problem that is public or your own.",
    )


class _SubmissionFields(EvaluationInput, NotesInput):
    """The fields that both ways of submitting share."""

    problem = Text(max_length=100, help_text="A slug from /api/v1/problems/.")
    backend = Choice(choices=values_of(Backend), default=Backend.PYTORCH.value, help_text="What it is written in.")
    visibility = Choice(
        choices=Visibility.values, default=Visibility.PRIVATE.value, help_text="Who may open the submission."
    )
    note = Text(max_length=200, default="", allow_blank=True, help_text="A line for yourself.")


class SubmissionInput(_SubmissionFields):
    """A submission as JSON: `source` for one file, `files` for several, not both."""

    source = Text(  # type: ignore[assignment]  # the metaclass takes it out of the class
        required=False, allow_blank=True, help_text="The text of solution.py."
    )
    files = serializers.DictField(
        child=Text(allow_blank=True),
        required=False,
        help_text="Text by path; solution.py at the root, further .py .cu .cuh .cpp .h beside it.",
    )

    def validate_files(self, files: dict[str, str]) -> dict[str, str]:
        """Refuse paths that an archive could not even hold; raises ValidationError."""
        for path in files:
            if not path.isprintable() or not path.strip("/") or path.endswith("/") or len(path) > 200:
                raise serializers.ValidationError(f"{path[:80]!r} is not a path of a file such as lib/a.cu.")
        return files

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("source" in attrs) == ("files" in attrs):
            raise serializers.ValidationError({"source": "Send either source or files."})
        return attrs


class SubmissionUpload(_SubmissionFields):
    """A submission as a form with an uploaded file."""

    file = Attachment(help_text="One .py file, or a .zip with solution.py at its root.")


def bundle_of(values: Mapping[str, Any]) -> SourceBundle:
    """The files of a validated submission; raises Refusal as `uploads` does."""
    if "file" in values:
        return uploads.bundle_from_upload(values["file"].name, values["file"].read())
    if "source" in values:
        return uploads.bundle_from_text(values["source"])
    return uploads.bundle_from_files(values["files"])


def idempotency_key(request: Request) -> str | None:
    """The Idempotency-Key header, or None without one; raises ValidationError."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not (0 < len(key) <= _KEY_LENGTH and key.isascii() and key.isprintable()):
        message = f"The key has 1 to {_KEY_LENGTH} printable ASCII characters."
        raise serializers.ValidationError({"Idempotency-Key": message})
    return key
