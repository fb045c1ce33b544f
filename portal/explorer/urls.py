"""Addresses of the problems, their rooflines and their taxonomy."""

from django.urls import path

from portal.explorer import problem_views, roofline_views, taxonomy_views

app_name = "explorer"
urlpatterns = [
    path("problems/", problem_views.problem_list, name="problems"),
    path("problems/<slug:slug>/", problem_views.problem_page, name="problem"),
    path("roofline/", roofline_views.roofline, name="roofline"),
    path("roofline/data.csv", roofline_views.roofline_csv, name="roofline-csv"),
    path("taxonomy/", taxonomy_views.browser, name="taxonomy"),
]
