"""Addresses of organisations and their webhooks."""

from django.urls import path

from portal.organisations import views

app_name = "organisations"
urlpatterns = [
    path("organisations/", views.index, name="index"),
    path("organisations/<slug:slug>/", views.organisation, name="organisation"),
    path("organisations/<slug:slug>/invite/", views.invite, name="invite"),
    path(
        "organisations/<slug:slug>/invitations/<int:invitation_id>/withdraw/",
        views.withdraw,
        name="withdraw",
    ),
    path("organisations/<slug:slug>/role/", views.change_role, name="change-role"),
    path("organisations/<slug:slug>/remove/", views.remove_member, name="remove-member"),
    path("organisations/<slug:slug>/webhooks/", views.add_webhook, name="add-webhook"),
    path("organisations/<slug:slug>/webhooks/<int:webhook_id>/", views.webhook, name="webhook"),
    path("organisations/<slug:slug>/webhooks/<int:webhook_id>/test/", views.try_webhook, name="try-webhook"),
    path(
        "organisations/<slug:slug>/webhooks/<int:webhook_id>/remove/",
        views.remove_webhook,
        name="remove-webhook",
    ),
    path("invitations/<int:invitation_id>/accept/", views.accept, name="accept"),
    path("invitations/<int:invitation_id>/decline/", views.decline, name="decline"),
]
