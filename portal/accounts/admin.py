"""Where an operator looks after accounts and organisations."""

from allauth.socialaccount.models import SocialApp, SocialToken
from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.admin import UserAdmin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from portal.accounts import actions
from portal.accounts.identity import signed_in
from portal.accounts.models import Membership, Organisation, User
from portal.core.admin import ReadOnly, confirm, confirmed


class ActivityForm(forms.Form):
    reason = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 4, "cols": 80}),
        help_text="The account's owner reads this reason. It is kept in the account's history.",
    )


@admin.register(User)
class PersonAdmin(UserAdmin):  # type: ignore[type-arg]
    list_per_page = 25  # as in other long lists: Django's admin takes about a millisecond for a row
    show_full_result_count = False
    search_fields = ("username", "email")  # each column is looked through for all accounts, twice
    actions = ("close_accounts", "open_accounts")

    @admin.action(description="Ban: close the accounts, with a reason")
    def close_accounts(
        self, request: HttpRequest, queryset: QuerySet[User], *, is_active: bool = False
    ) -> HttpResponse | None:
        form = ActivityForm(confirmed(request))
        if form.is_valid():
            verb = "opened" if is_active else "closed"
            reason = form.cleaned_data["reason"]
            for user in queryset:
                actions.set_active(user, is_active=is_active, by=signed_in(request), reason=reason)
            LogEntry.objects.log_actions(request.user.pk, queryset, CHANGE, f"Account {verb}: {reason}")  # type: ignore[arg-type]
            messages.success(request, f"{queryset.count()} accounts {verb}.")
            return None
        title = "Open accounts" if is_active else "Close accounts"
        return confirm(self, request, queryset, form, title=title, rows=[user.username for user in queryset])

    @admin.action(description="Open the accounts again, with a reason")
    def open_accounts(self, request: HttpRequest, queryset: QuerySet[User]) -> HttpResponse | None:
        return self.close_accounts(request, queryset, is_active=True)


class MembershipInline(admin.TabularInline):  # type: ignore[type-arg]
    model = Membership
    extra = 0
    autocomplete_fields = ("user",)


@admin.register(Organisation)
class OrganisationAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("slug", "name", "sponsor", "gpu_seconds", "created_at")
    list_select_related = ("sponsor",)
    autocomplete_fields = ("sponsor",)
    search_fields = ("slug", "name")
    inlines = (MembershipInline,)


@admin.register(LogEntry)
class OperatorsLogAdmin(ReadOnly):
    """What operators did: who, what, on what, when and why. Lines cannot be added, changed or removed."""

    list_display = ("action_time", "user", "content_type", "object_repr", "action_flag", "said")
    list_select_related = ("user", "content_type")
    search_fields = ("user__username", "object_repr", "object_id", "change_message")
    show_full_result_count = False

    @admin.display(description="Action and reason")
    def said(self, entry: LogEntry) -> str:
        return entry.get_change_message()


# Clients of providers come from the environment, and no tokens of theirs are kept.
for _unwanted in (SocialApp, SocialToken):
    admin.site.unregister(_unwanted)
