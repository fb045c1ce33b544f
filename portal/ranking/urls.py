"""Addresses of the boards."""

from django.urls import path

from portal.ranking import views

app_name = "ranking"
urlpatterns = [
    path("leaderboards/", views.overview, name="overview"),
    path("problems/<slug:slug>/leaderboard/", views.board, name="board"),
]
