"""Logs with links into the source below them, and the pictures of a recorded call."""

from django import template
from django.utils.safestring import mark_safe

from evaluator.judging.call_advice import short
from portal.submissions.reports.failing_lines import linked, own_frames
from portal.submissions.reports.timelines import split_bar

register = template.Library()
register.filter("own_frames", own_frames)
register.filter("linked", linked)
register.filter("short_name", short)
register.filter("split_bar", split_bar)
register.filter("drawn", mark_safe)  # what charts have drawn is escaped there
