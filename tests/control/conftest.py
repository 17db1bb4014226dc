"""An operator at the admin: logged in, choosing rows and operations."""

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db.models import Model
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse


class Operator:
    """Speaks to the admin as a browser would."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.client = Client()
        self.client.force_login(user)

    def page(self, row: Model) -> str:
        """The page of a row."""
        names = row._meta
        address = reverse(f"admin:{names.app_label}_{names.model_name}_change", args=[row.pk])
        return _text(self.client.get(address))

    def found(self, model: type[Model], words: str) -> list[Any]:
        """What the list shows for a search."""
        response = self.client.get(_list(model), {"q": words})
        assert response.status_code == 200
        return list(response.context["cl"].result_list)

    def listed(self, model: type[Model], **query: str) -> str:
        """The words of a list."""
        return _text(self.client.get(_list(model), query))

    def open(self, operation: str, *rows: Model) -> HttpResponse:
        """The first page of an operation."""
        return self.client.get(_address(operation, rows[0]), {"ids": _ids(rows)})  # type: ignore[return-value]

    def effect(self, operation: str, *rows: Model, **form: Any) -> str:
        """What the page says would happen."""
        sent = {"ids": _ids(rows), **self.hidden(operation, *rows), **form}
        return _text(self.client.post(_address(operation, rows[0]), sent))

    def do(self, operation: str, *rows: Model, hidden: dict[str, str] | None = None, **form: Any) -> str:
        """Confirms; the page that follows. `hidden` is of a page opened before: the same again sends that page twice."""
        sent = {"ids": _ids(rows), "confirm": "1", **(hidden or self.hidden(operation, *rows)), **form}
        return _text(self.client.post(_address(operation, rows[0]), sent, follow=True))

    def post(self, operation: str, *rows: Model, **form: Any) -> Any:
        """The bare answer to a form; what a page carries along is missing, as for one who never saw it."""
        return self.client.post(_address(operation, rows[0]), {"ids": _ids(rows), **form})

    def may(self, *codenames: str) -> None:
        """From now on has these permissions."""
        self.user.user_permissions.set(Permission.objects.filter(codename__in=codenames))

    def hidden(self, operation: str, *rows: Model) -> dict[str, str]:
        """What the page of an operation carries along unseen."""
        page = self.open(operation, *rows).content.decode()
        return {name: _value(page, name) for name in ("token", "marks")}


@pytest.fixture
def operator(db: None) -> Operator:
    """One who may do everything."""
    return Operator(User.objects.create_superuser("root", password="x"))


@pytest.fixture
def onlooker(db: None) -> Callable[..., Operator]:
    """One who may look at a model and nothing else, or has the permissions named (`change_job`)."""

    def make(*codenames: str) -> Operator:
        made = Operator(User.objects.create_user("onlooker", password="x", is_staff=True))
        made.may(*codenames)
        return made

    return make


def _value(page: str, name: str) -> str:
    found = re.search(f'name="{name}" value="([^"]*)"', page)
    assert found is not None, f"the page has no {name}"
    return found[1]


def _ids(rows: tuple[Model, ...]) -> str:
    return ",".join(str(row.pk) for row in rows)


def _address(operation: str, row: Model) -> str:
    names = row._meta
    return reverse(f"admin:{names.app_label}_{names.model_name}_do", args=[operation])


def _list(model: type[Model]) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def _text(response: Any) -> str:
    """The words of a page, without tags, blanks folded."""
    assert response.status_code == 200, response
    without = re.sub(r"<(script|style|svg).*?</\1>", " ", response.content.decode(), flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", without)))
