"""Addresses of the boards."""

from django.urls import path
from django.views.generic import RedirectView

from portal.ranking import views

app_name = "ranking"
_to_problems = RedirectView.as_view(pattern_name="explorer:problems", query_string=True)
urlpatterns = [
    path("leaderboards/problems/", _to_problems, name="problems"),
    path("leaderboards/people/", views.people_board, name="people"),
    path("leaderboards/people/<str:username>/", views.person, name="person"),
    path("leaderboards/records/", views.records, name="records"),
    path("nodes/guests/<slug:slug>/", views.guest, name="guest"),
    path("leaderboards/open/", views.open_board, name="open"),
    path("leaderboards/published/", views.published_board, name="published"),
    path("leaderboards/published/programs/", views.published_verdicts, name="published-programs"),
    path("leaderboards/published.csv", views.published_data, {"format": "csv"}, name="published-csv"),
    path("leaderboards/published.jsonl", views.published_data, {"format": "jsonl"}, name="published-jsonl"),
    path("problems/<slug:slug>/leaderboard/", views.board, name="board"),
    path("problems/<slug:slug>/records/", views.problem_records, name="problem-records"),
    path("problems/<slug:slug>/scaling/", views.scaling, name="scaling"),
]
