"""Addresses of accounts."""

from django.contrib.auth import views as auth
from django.urls import path, reverse_lazy

from portal.accounts import views
from portal.accounts.forms import NewPasswordForm

app_name = "accounts"
urlpatterns = [
    path("", views.profile, name="profile"),
    path("sign-up/", views.sign_up, name="sign-up"),
    path(
        "sign-in/",
        views.SignIn.as_view(),
        name="sign-in",
    ),
    path("sign-out/", auth.LogoutView.as_view(), name="sign-out"),
    path(
        "password/",
        auth.PasswordChangeView.as_view(
            template_name="accounts/password.html",
            form_class=NewPasswordForm,
            success_url=reverse_lazy("accounts:profile"),
        ),
        name="password",
    ),
    path("tokens/<int:token_id>/revoke/", views.revoke_token, name="revoke-token"),
]
