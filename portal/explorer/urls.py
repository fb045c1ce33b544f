"""Addresses of the problems, their rooflines and their taxonomy."""

from django.urls import path

from portal.explorer import problem_views, roofline_views, taxonomy_views

app_name = "explorer"
urlpatterns = [
    path("problems/", problem_views.problem_list, name="problems"),
    path("problems/<slug:slug>/", problem_views.problem_page, name="problem"),
    path("problems/<slug:slug>/reference.py", problem_views.reference_file, name="reference"),
    path("roofline/", roofline_views.roofline, name="roofline"),
    path("roofline/data.csv", roofline_views.roofline_csv, name="roofline-csv"),
    path("roofline/chart.svg", roofline_views.roofline_picture, name="roofline-picture"),
    path("taxonomy/", taxonomy_views.browser, name="taxonomy"),
]
