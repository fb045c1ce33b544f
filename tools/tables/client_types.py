"""Writes the client's types (client/pkb/results.py) from the OpenAPI document: `make client-types`.

The document says more than a client should hold a newer site to. So words to choose from become plain text, bounds go,
and of the judge's report only what the client reads is taken.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from datamodel_code_generator import DataModelType, InputFileType, generate
from datamodel_code_generator.format import DatetimeClassType, Formatter, PythonVersion

TARGET = Path(__file__).parents[2] / "client" / "pkb" / "results.py"
HEADER = '''"""The site's responses, typed. Fields that a newer site adds are ignored, so an older client keeps working.

Made from the OpenAPI document by tools/tables/client_types.py: do not edit.
"""'''
READ = (
    "AttemptOutputPage",
    "BulkResultOutput",
    "EventPageOutput",
    "ForecastOutput",
    "ImportOutput",
    "ImportPreviewOutput",
    "MeOutput",
    "OrganisationOutput",
    "ProblemDetail",
    "ProfileOutput",
    "PromptOutput",
    "QuotaOutput",
    "RunBriefPage",
    "RunDetail",
    "SeasonDetail",
    "SubmissionBriefPage",
    "SubmissionDetail",
)
"""What the client reads; the rest follows from these."""
REPORT = (
    "verdict",
    "message",
    "profile",
    "world_size",
    "mode",
    "dtype",
    "findings",
    "notes",
    "sizes",
    "timing",
    "points",
    "ranks",
    "build",
    "primitives",
    "environment",
)
"""What it reads of a judge's report."""
KEPT = {"type", "description", "default", "required", "items", "additionalProperties", "oneOf", "anyOf"}


def name_of(component: str) -> str:
    """The client's name of a component."""
    return re.sub(r"(Output|Detail)(?=$|Page$)", "", component).replace("EvaluationReport", "Report")


def simplified(part: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """A schema as the client takes it."""
    if "$ref" in part:
        name = part["$ref"].rsplit("/", 1)[-1]
        return {"type": "string"} if "enum" in components[name] else {"$ref": f"#/components/schemas/{name_of(name)}"}
    if "enum" in part:
        return {"type": "string"}
    if "allOf" in part:  # one reference, with what is said of the field beside it
        return simplified(part["allOf"][0], components)
    kept = {key: value for key, value in part.items() if key in KEPT}
    if part.get("format") == "date-time":
        kept["format"] = "date-time"
    if "properties" in part:
        kept.pop("additionalProperties", None)
        kept["properties"] = {
            name: simplified({key: value for key, value in field.items() if key != "description"}, components)
            for name, field in part["properties"].items()
        }
        kept["description"] = part.get("description", "A page.").partition("\n\n")[0]
        kept["required"] = [*kept["properties"]]  # a default of the document is taken where something is missing
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), dict):
            kept[key] = simplified(kept[key], components)
    for key in ("oneOf", "anyOf"):
        if key in kept:
            kept[key] = [simplified(one, components) for one in kept[key]]
    return kept


def types(document: dict[str, Any]) -> str:
    """The module of the client's types."""
    components = document["components"]["schemas"]
    report = components["EvaluationReport"]
    read_of_report = {name: report["properties"][name] for name in REPORT}
    components = {**components, "EvaluationReport": {**report, "properties": read_of_report}}
    found: dict[str, Any] = {}
    wanted = list(READ)
    while wanted:
        name = wanted.pop()
        if name_of(name) in found or "enum" in components[name]:
            continue
        schema = components[name]
        found[name_of(name)] = simplified(schema, components)
        wanted += re.findall(r"#/components/schemas/(\w+)", json.dumps(schema))
        brief = name.replace("Detail", "Brief")
        if brief != name and brief in components:
            wanted.append(brief)
    for name, schema in found.items():
        if brief := found.get(f"{name}Brief"):
            found[name] = _derived(schema, brief, base=f"{name}Brief")
    openapi = {"openapi": "3.1.0", "info": {"title": "", "version": ""}, "paths": {}, "components": {"schemas": found}}
    made = generate(
        json.dumps(openapi),
        input_file_type=InputFileType.OpenAPI,
        output_model_type=DataModelType.MsgspecStruct,
        target_python_version=PythonVersion.PY_311,
        custom_file_header=HEADER,
        disable_timestamp=True,
        disable_future_imports=True,
        keyword_only=True,
        use_schema_description=True,
        use_single_line_docstring=True,
        use_standard_collections=True,
        use_union_operator=True,
        apply_default_values_for_required_fields=True,
        output_datetime_class=DatetimeClassType.Datetime,
        formatters=[Formatter.RUFF_CHECK, Formatter.RUFF_FORMAT],
    )
    # The generator has no word for frozen Structs, and avoids its own import's name where a field may have it.
    text = str(made).replace(", kw_only=True):", ", frozen=True, kw_only=True):")
    return f"{text.rstrip()}\n".replace('field_: str = field(name="field")', "field: str")


def _derived(schema: dict[str, Any], brief: dict[str, Any], *, base: str) -> dict[str, Any]:
    """A schema as one that adds to its brief form."""
    added = {name: field for name, field in schema["properties"].items() if brief["properties"].get(name) != field}
    rest = {"type": "object", "properties": added, "required": [*added]}
    return {"description": schema["description"], "allOf": [{"$ref": f"#/components/schemas/{base}"}, rest]}


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    import django

    django.setup()
    from portal.api.schema import document

    TARGET.write_text(types(document()), encoding="utf-8")
