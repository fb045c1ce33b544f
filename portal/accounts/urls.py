"""Addresses of accounts that are ours; those of allauth's pages are in `sign_in_urls`."""

from django.contrib.auth import views as auth
from django.urls import path

from portal.accounts import views

app_name = "accounts"
urlpatterns = [
    path("", views.profile, name="profile"),
    path("public/", views.public_page, name="public"),
    path("sign-up/", views.sign_up, name="sign-up"),
    path("sign-in/", views.SignIn.as_view(), name="sign-in"),
    path("sign-out/", auth.LogoutView.as_view(), name="sign-out"),
    path("password/", views.NewPassword.as_view(), name="password"),
    path("tokens/<int:token_id>/revoke/", views.revoke_token, name="revoke-token"),
]
