"""Logs with links into the source below them."""

from django import template

from portal.submissions.reports.source_links import linked, own_frames

register = template.Library()
register.filter("own_frames", own_frames)
register.filter("linked", linked)
