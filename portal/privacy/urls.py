"""Addresses of a user's own data."""

from django.urls import path

from portal.privacy import views

app_name = "own-data"
urlpatterns = [
    path("data/", views.archive, name="archive"),
    path("delete/", views.leave, name="leave"),
]
