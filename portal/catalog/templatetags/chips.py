"""Choices as rows of links: one click, no script, and the choice is in the address."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import template
from django.http import QueryDict

from evaluator.hardware.profiles import Profile

register = template.Library()

_DROPPED = ("after", "before", "page", "window")
"""Where one was in another list, or in another picture, means nothing in the chosen one."""


@register.inclusion_tag("includes/chips.html", takes_context=True)
def chips(
    context: template.Context,
    label: str,
    name: str,
    choices: Iterable[Any],
    chosen: Any = "",
    *,
    every: str = "",
    notes: Mapping[str, Any] | None = None,
    anchor: str = "",
) -> dict[str, Any]:
    """A row of links that set the parameter `name` of the page's address.

    Args:
        context: the page's.
        label: what is chosen.
        name: the parameter.
        choices: values, or pairs of a value and what is read.
        chosen: the current value.
        every: what the link says that chooses nothing; there is none where this is empty.
        notes: a note on a choice, such as a count, by value; choices without one come last, folded away.
        anchor: the part of the page that the links lead to, such as "#roofline".
    """
    query = context["request"].GET
    pairs = [choice if isinstance(choice, tuple) else (choice, getattr(choice, "label", choice)) for choice in choices]
    offered = [("", every), *pairs] if every else pairs
    links = [
        {
            "text": text,
            "href": _address(query, name, str(value)) + anchor,
            "is_chosen": str(value) == str(chosen or ""),
            "note": (notes or {}).get(value),
        }
        for value, text in offered
    ]
    is_plain = notes is None
    shown = [link for link in links if is_plain or link["note"] or link["is_chosen"] or link["text"] == every]
    return {"label": label, "links": shown, "more": [link for link in links if link not in shown]}


@register.inclusion_tag("includes/chips.html", takes_context=True)
def profile_chips(
    context: template.Context, choices: Sequence[tuple[Profile, int | str | None]], chosen: Any, every: str = ""
) -> dict[str, Any]:
    """`chips` of hardware: profiles with how much there is of each; those without anything are folded away."""
    notes = None if all(count is None for _, count in choices) else {profile.name: count for profile, count in choices}
    names = [(profile.name, profile.title) for profile, _ in choices]
    return chips(context, "Hardware", "profile", names, getattr(chosen, "name", chosen), every=every, notes=notes)


def _address(query: QueryDict, name: str, value: str) -> str:
    changed = query.copy()
    for dropped in _DROPPED:
        changed.pop(dropped, None)
    changed[name] = value
    if not value:
        del changed[name]
    return f"?{changed.urlencode()}"
