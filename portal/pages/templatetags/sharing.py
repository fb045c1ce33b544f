"""What others show of a page that is shared with them."""

import re
from typing import Any

from django import template
from django.http import HttpRequest
from django.template.loader_tags import BLOCK_CONTEXT_KEY
from django.utils.html import strip_tags
from django.utils.safestring import SafeString, mark_safe

register = template.Library()


@register.simple_tag(takes_context=True)
def block_text(context: template.Context, name: str) -> SafeString:
    """The text of the page's block `name` once more: Django lets a template name a block only once."""
    blocks: Any = context.render_context.get(BLOCK_CONTEXT_KEY)
    block = blocks.get_block(name) if blocks is not None else None
    if block is None:
        return SafeString("")
    with context.push():
        text = strip_tags(block.nodelist.render(context))
    return mark_safe(" ".join(text.split()).replace('"', "&quot;"))  # noqa: S308 - rendered, so escaped already


@register.simple_tag(takes_context=True)
def page_address(context: template.Context) -> str:
    """The page's own address, without what the reader chose on it."""
    request = context.get("request")
    return request.build_absolute_uri(request.path) if isinstance(request, HttpRequest) else ""


@register.inclusion_tag("includes/cite.html", takes_context=True)
def cite(context: template.Context, key: str, title: str, author: str = "") -> dict[str, str]:
    """How to cite the page, in BibTeX; `key` ends the name of the reference."""
    title, author = (re.sub(r"([#$%&_{}])", r"\\\1", text) for text in (title, author))
    return {"key": key, "title": title, "author": author, "address": page_address(context)}
