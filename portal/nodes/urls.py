"""The status page's address."""

from django.urls import path

from portal.nodes import views

app_name = "nodes"
urlpatterns = [path("", views.status, name="status")]
