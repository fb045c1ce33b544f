"""Addresses under /problems/ that read."""

from django.urls import path

from portal.catalog import views

app_name = "catalog"
urlpatterns = [
    path("", views.problem_list, name="problems"),
    path("<slug:slug>/", views.problem_page, name="problem"),
]
