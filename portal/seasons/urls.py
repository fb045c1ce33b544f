"""Addresses of seasons."""

from django.urls import path

from portal.seasons import views

app_name = "seasons"
urlpatterns = [
    path("", views.index, name="index"),
    path("new/", views.new, name="new"),
    path("join/", views.join, name="join"),
    path("<slug:slug>/", views.season, name="season"),
    path("<slug:slug>/edit/", views.edit, name="edit"),
    path("<slug:slug>/steps/", views.take_step, name="step"),
    path("<slug:slug>/people/", views.people, name="people"),
    path("<slug:slug>/people/<str:username>/", views.history, name="history"),
    path("<slug:slug>/enter/", views.enter, name="enter"),
    path("<slug:slug>/leave/", views.leave, name="leave"),
]
