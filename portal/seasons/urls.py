"""Addresses of seasons."""

from django.urls import path

from portal.seasons import views

app_name = "seasons"
urlpatterns = [
    path("", views.index, name="index"),
    path("<slug:slug>/", views.season, name="season"),
    path("<slug:slug>/team/", views.own_team, name="team"),
    path("<slug:slug>/enter/", views.enter, name="enter"),
    path("<slug:slug>/leave/", views.leave, name="leave"),
]
