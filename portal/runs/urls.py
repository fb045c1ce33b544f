"""Addresses of models, runs and prompts."""

from django.urls import path

from portal.runs import organisation_views, views

app_name = "runs"
urlpatterns = [
    path("leaderboards/models/", views.leaderboard, name="leaderboard"),
    path("models/<slug:slug>/", views.model, name="model"),
    path("problems/<slug:slug>/prompt/", views.prompt, name="prompt"),
    path("runs/", views.mine, name="mine"),
    path("runs/new/", views.new, name="new"),
    path("runs/import/", views.import_tree, name="import"),
    path("runs/compare/", views.compare, name="compare"),
    path("runs/<uuid:run_id>/", views.run_page, name="run"),
    path("runs/<uuid:run_id>/live/", views.live, name="live"),
    path("runs/<uuid:run_id>/fill/", views.fill, name="fill"),
    path("runs/<uuid:run_id>/publish/", views.publish, name="publish"),
    path("runs/<uuid:run_id>/problems/<slug:slug>/", views.attempts, name="attempts"),
    path("runs/<uuid:run_id>/attempts/<int:attempt_id>/trajectory/", views.trajectory, name="trajectory"),
    path("organisations/", organisation_views.index, name="organisations"),
    path("organisations/<slug:slug>/", organisation_views.organisation, name="organisation"),
    path("organisations/<slug:slug>/invite/", organisation_views.invite, name="invite"),
    path(
        "organisations/<slug:slug>/invitations/<int:invitation_id>/withdraw/",
        organisation_views.withdraw,
        name="withdraw",
    ),
    path("organisations/<slug:slug>/role/", organisation_views.change_role, name="change-role"),
    path("organisations/<slug:slug>/remove/", organisation_views.remove_member, name="remove-member"),
    path("organisations/<slug:slug>/webhooks/", organisation_views.add_webhook, name="add-webhook"),
    path("organisations/<slug:slug>/webhooks/<int:webhook_id>/", organisation_views.webhook, name="webhook"),
    path(
        "organisations/<slug:slug>/webhooks/<int:webhook_id>/test/", organisation_views.try_webhook, name="try-webhook"
    ),
    path(
        "organisations/<slug:slug>/webhooks/<int:webhook_id>/deliveries/<uuid:delivery_id>/send-again/",
        organisation_views.send_again,
        name="send-again",
    ),
    path(
        "organisations/<slug:slug>/webhooks/<int:webhook_id>/remove/",
        organisation_views.remove_webhook,
        name="remove-webhook",
    ),
    path("invitations/<int:invitation_id>/accept/", organisation_views.accept, name="accept"),
    path("invitations/<int:invitation_id>/decline/", organisation_views.decline, name="decline"),
]
