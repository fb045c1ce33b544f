"""Addresses of the reader's notices."""

from django.urls import path

from portal.deliveries import views

app_name = "notices"
urlpatterns = [
    path("accounts/notices/", views.notices, name="notices"),
    path("accounts/notices/<int:channel_id>/kinds/", views.set_kinds, name="kinds"),
    path("accounts/notices/<int:channel_id>/test/", views.test, name="test"),
    path("accounts/notices/<int:channel_id>/remove/", views.remove, name="remove"),
]
