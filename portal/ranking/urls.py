"""Addresses of the boards."""

from django.urls import path, re_path

from portal.ranking import views

app_name = "ranking"
urlpatterns = [
    path("leaderboards/problems/", views.problems_board, name="problems"),
    path("leaderboards/people/", views.people_board, name="people"),
    path("leaderboards/people/<str:username>/", views.person, name="person"),
    path("leaderboards/records/", views.records, name="records"),
    path("nodes/guests/<slug:slug>/", views.guest, name="guest"),
    path("leaderboards/open/", views.open_board, name="open"),
    path("leaderboards/published/", views.published_board, name="published"),
    re_path(r"^leaderboards/published\.(?P<format>csv|jsonl)$", views.published_data, name="published-data"),
    path("problems/<slug:slug>/leaderboard/", views.board, name="board"),
    path("problems/<slug:slug>/records/", views.problem_records, name="problem-records"),
    path("problems/<slug:slug>/scaling/", views.scaling, name="scaling"),
]
