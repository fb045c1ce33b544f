"""Addresses of the problems, their rooflines and their taxonomy."""

from django.urls import path

from portal.explorer import views

app_name = "explorer"
urlpatterns = [
    path("problems/", views.problem_list, name="problems"),
    path("problems/<slug:slug>/", views.problem_page, name="problem"),
    path("problems/<slug:slug>/reference.py", views.reference_file, name="reference"),
    path("roofline/", views.roofline, name="roofline"),
    path("roofline/data.csv", views.roofline_csv, name="roofline-csv"),
    path("roofline/chart.svg", views.roofline_picture, name="roofline-picture"),
    path("taxonomy/", views.browser, name="taxonomy"),
]
