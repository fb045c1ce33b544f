"""Seasons as operators look them up; they run them on the seasons' own pages, or at the command line."""

from django.contrib import admin

from portal.core.admin import ReadOnly
from portal.seasons.models import Entry, Season, Team


@admin.register(Season)
class SeasonAdmin(ReadOnly):
    list_display = ("slug", "title", "organisation", "profile", "access", "opens_at", "closes_at")
    list_select_related = ("organisation",)


@admin.register(Team)
class TeamAdmin(ReadOnly):
    list_display = ("name", "season", "organisation", "person", "created_at")
    list_filter = ("season",)
    list_select_related = ("season", "organisation", "person")


@admin.register(Entry)
class EntryAdmin(ReadOnly):
    list_display = ("problem", "season", "team", "entered_at", "refused")
    list_filter = ("season", "problem")
    list_select_related = ("season", "team")
