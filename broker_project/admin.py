"""The operators' own logins: the one thing in the admin that is edited, with Django's own pages in the style of the rest;
and what is shown by pages of the control room."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from broker_project.control.redrives import RedriveAdmin
from jobs.models import Redrive

admin.site.unregister(User)
admin.site.unregister(Group)
admin.site.register(Redrive, RedriveAdmin)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg, misc]
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """One who did something is made inactive instead: with the login its deeds and their reasons would go."""
        if obj is not None and LogEntry.objects.filter(user=obj).exists():
            return False
        return bool(super().has_delete_permission(request, obj))


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):  # type: ignore[misc]
    pass
