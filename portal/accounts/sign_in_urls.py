"""Addresses of allauth's pages, by the names that it looks them up by; only those that this site wants are here.

Where allauth has a page that we have as well (signing in, out and up, a new password), its name leads to ours.
"""

from allauth.account import views as account
from allauth.mfa.base import views as mfa
from allauth.mfa.recovery_codes import views as recovery
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as passkeys
from allauth.socialaccount import views as elsewhere
from allauth.socialaccount.providers.github import views as github
from allauth.socialaccount.providers.google import views as google
from allauth.socialaccount.providers.openid_connect import views as oidc
from django.contrib.auth import views as auth
from django.urls import path, re_path
from django.views.decorators.cache import never_cache

from portal.accounts import views
from portal.accounts.identity import returning_from, to_other_site, where_mail_is_set_up
from portal.accounts.throttle import CODES, MAILS, SIGN_UPS, limited

urlpatterns = [
    path("sign-in/", views.SignIn.as_view(), name="account_login"),
    path("sign-out/", auth.LogoutView.as_view(), name="account_logout"),
    path("sign-up/", views.sign_up, name="account_signup"),
    path("password/", views.NewPassword.as_view(), name="account_change_password"),
    path("password/", views.NewPassword.as_view(), name="account_set_password"),
    # Mail.
    path("email/", limited("mail", MAILS)(where_mail_is_set_up(account.email)), name="account_email"),
    path("email/sent/", account.email_verification_sent, name="account_email_verification_sent"),
    path("email/confirm/<str:key>/", account.confirm_email, name="account_confirm_email"),
    path(
        "password/reset/",
        limited("mail", MAILS)(where_mail_is_set_up(account.password_reset)),
        name="account_reset_password",
    ),
    path("password/reset/sent/", account.password_reset_done, name="account_reset_password_done"),
    re_path(
        r"^password/reset/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$",
        limited("code", CODES)(views.NewPasswordByMail.as_view()),
        name="account_reset_password_from_key",
    ),
    path("password/reset/done/", account.password_reset_from_key_done, name="account_reset_password_from_key_done"),
    # The second factor.
    path("inactive/", account.account_inactive, name="account_inactive"),
    path("again/", limited("code", CODES)(account.reauthenticate), name="account_reauthenticate"),
    path("again/code/", limited("code", CODES)(mfa.reauthenticate), name="mfa_reauthenticate"),
    path(
        "again/passkey/", limited("code", CODES)(passkeys.reauthenticate_webauthn), name="mfa_reauthenticate_webauthn"
    ),
    path("sign-in/code/", limited("code", CODES)(mfa.authenticate), name="mfa_authenticate"),
    path("sign-in/passkey/", passkeys.login_webauthn, name="mfa_login_webauthn"),
    path("security/", mfa.index, name="mfa_index"),
    path("security/app/", never_cache(limited("code", CODES)(totp.activate_totp)), name="mfa_activate_totp"),
    path("security/app/remove/", totp.deactivate_totp, name="mfa_deactivate_totp"),
    path("security/codes/", never_cache(recovery.view_recovery_codes), name="mfa_view_recovery_codes"),
    path("security/codes/new/", never_cache(recovery.generate_recovery_codes), name="mfa_generate_recovery_codes"),
    path("security/codes/download/", recovery.download_recovery_codes, name="mfa_download_recovery_codes"),
    path("security/passkeys/", passkeys.list_webauthn, name="mfa_list_webauthn"),
    path("security/passkeys/new/", passkeys.add_webauthn, name="mfa_add_webauthn"),
    path("security/passkeys/<int:pk>/remove/", passkeys.remove_webauthn, name="mfa_remove_webauthn"),
    path("security/passkeys/<int:pk>/name/", passkeys.edit_webauthn, name="mfa_edit_webauthn"),
    # Accounts elsewhere.
    path("elsewhere/", elsewhere.connections, name="socialaccount_connections"),
    path("elsewhere/sign-up/", limited("sign-up", SIGN_UPS)(elsewhere.signup), name="socialaccount_signup"),
    path("elsewhere/cancelled/", elsewhere.login_cancelled, name="socialaccount_login_cancelled"),
    path("elsewhere/failed/", elsewhere.login_error, name="socialaccount_login_error"),
    path("github/", to_other_site(github.oauth2_login), name="github_login"),
    path("github/back/", returning_from(github.oauth2_callback), name="github_callback"),
    path("google/", to_other_site(google.oauth2_login), name="google_login"),
    path("google/back/", returning_from(google.oauth2_callback), name="google_callback"),
    path("oidc/<slug:provider_id>/", to_other_site(oidc.login), name="openid_connect_login"),
    path("oidc/<slug:provider_id>/back/", returning_from(oidc.callback), name="openid_connect_callback"),
]
