"""Every address of the site, by app."""

from django.contrib import admin
from django.contrib.sitemaps.views import sitemap
from django.urls import include, path
from django.views.decorators.http import require_safe

from portal.manual.views import manual
from portal.pages import views

urlpatterns = [
    path("", views.home, name="home"),
    path("", include("portal.explorer.urls")),
    path("", include("portal.submissions.urls")),
    path("leaderboards/", views.leaderboards, name="leaderboards"),
    path("", include("portal.ranking.urls")),
    path("", include("portal.runs.urls")),
    path("", include("portal.organisations.urls")),
    path("seasons/", include("portal.seasons.urls")),
    path("nodes/", views.status, name="status"),
    path("docs/", views.docs, name="docs"),
    path("docs/<path:address>", manual, name="manual"),
    path("", include("portal.deliveries.urls")),
    path("accounts/", include("portal.accounts.urls")),
    path("accounts/", include("portal.accounts.sign_in_urls")),
    path("accounts/", include("portal.privacy.urls")),
    path("api/v1/", include("portal.api.urls")),
    path("feeds/records.atom", views.RecordsFeed(), name="records-feed"),
    path("search/", views.search_page, name="search"),
    path("privacy/", views.words, {"name": "privacy", "title": "Privacy"}, name="privacy"),
    path("terms/", views.words, {"name": "terms", "title": "Terms of use"}, name="terms"),
    path(".well-known/security.txt", views.security_txt, name="security-txt"),
    path("robots.txt", views.robots, name="robots"),
    path("sitemap.xml", require_safe(sitemap), {"sitemaps": views.SECTIONS}, name="sitemap"),
    path("favicon.ico", views.favicon, name="favicon"),
    path("healthz", views.healthz, name="healthz"),
    path("readyz", views.readyz, name="readyz"),
    path("admin/", admin.site.urls),
]

handler400 = "portal.pages.errors.bad_request"
handler403 = "portal.pages.errors.permission_denied"
handler404 = "portal.pages.errors.not_found"
handler500 = "portal.pages.errors.server_error"
