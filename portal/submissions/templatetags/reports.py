"""Logs with links into the source below them, the pictures of a recorded call, and what operators look at first."""

from django import template
from django.utils.safestring import mark_safe

from evaluator.judging.call_advice import short
from portal.submissions.queries import for_operators
from portal.submissions.reports import failing_lines, timelines

register = template.Library()
register.simple_tag(for_operators)
register.filter("own_frames", failing_lines.own_frames)
register.filter("linked", failing_lines.linked)
register.filter("short_name", short)
register.filter("split_bar", timelines.split_bar)
register.filter("drawn", mark_safe)  # what charts have drawn is escaped there
