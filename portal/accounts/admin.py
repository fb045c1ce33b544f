"""Where an operator looks after accounts."""

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin

from portal.accounts.models import User

admin.site.register(User, UserAdmin)
