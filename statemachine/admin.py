"""Rows that move by verbs alone: in the admin they are looked at, and operated by what is offered; never edited."""

from collections.abc import Iterable, Sequence
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Model, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.functional import cached_property

from statemachine.operating import Page, read_value, rows_of
from statemachine.operations import MOST_ROWS, Column, Operation, columns_of, operations_of, sections_of

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin as _ModelAdmin

    ModelAdmin = _ModelAdmin[Any]
else:
    from unfold.admin import ModelAdmin

MOST_COUNTED = 10_000
MOST_WORDS, LONGEST_WORD = 5, 200


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts no further than a person pages: counting a million rows to show fifty takes seconds."""

    @cached_property
    def count(self) -> int:
        """How many rows there are, at most MOST_COUNTED."""
        rows: Any = self.object_list
        return int(rows.order_by()[:MOST_COUNTED].count())


class ReadOnlyAdmin(ModelAdmin):
    """Lists and pages to look at. Who may change rows of the model may do what is offered for it."""

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # they would count the whole table for each choice
    exact_search: ClassVar[Sequence[str]] = ()  # columns that a word of a search is compared with as it is
    list_per_page = 50
    paginator = BoundedPaginator
    list_fullwidth = True
    compressed_fields = True
    change_form_outer_before_template = "berth/buttons.html"
    change_form_outer_after_template = "berth/sections.html"
    main_fields: ClassVar[Sequence[str]] = ()  # shown first; the others are folded away. Empty: all are shown

    def has_add_permission(self, *_args: Any, **_kwargs: Any) -> bool:
        return False

    def has_change_permission(self, *_args: Any, **_kwargs: Any) -> bool:
        return False

    def has_delete_permission(self, *_args: Any, **_kwargs: Any) -> bool:
        return False

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """The main fields, then the rest, folded."""
        fields = self.get_fields(request, obj)
        if not self.main_fields:
            return [(None, {"fields": fields})]
        rest = [name for name in fields if name not in self.main_fields]
        return [(None, {"fields": self.main_fields}), ("More", {"fields": rest, "classes": ["collapse"]})]

    def may(self, request: HttpRequest, operation: Operation) -> bool:
        """Whether this operator has the permission that the operation needs, and may see the rows."""
        needed = operation.permission or f"{self.opts.app_label}.change_{self.opts.model_name}"
        return bool(request.user.has_perm(needed)) and self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  Django's signature
        return _may_see(request, self.model)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """With what the columns added to its list show."""
        more = {column.name: column.value for column in columns_of(self.model)}
        rows: QuerySet[Any] = super().get_queryset(request).annotate(**more)
        return rows

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        more = [_shown(column) for column in columns_of(self.model) if _may_see(request, column.of)]
        return [*super().get_list_display(request), *more]

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        """By indexes where `exact_search` names columns: Django compares texts in upper case, which none can serve."""
        if not self.exact_search:
            return super().get_search_results(request, queryset, " ".join(words_of(search_term)))
        for word in words_of(search_term):
            fitting = [
                Q(**{name: value})
                for name in self.exact_search
                if (value := read_value(self.opts, name, word)) is not None
            ]
            queryset = queryset.filter(reduce(or_, fitting)) if fitting else queryset.none()
        return queryset, False

    def get_urls(self) -> list[URLPattern]:
        """One page per operation, beside those of Django."""
        name = f"{self.opts.app_label}_{self.opts.model_name}_do"
        own = path("do/<slug:operation>", self.admin_site.admin_view(self.do_view), name=name)
        return [own, *super().get_urls()]

    def get_actions(self, request: HttpRequest) -> Any:
        """The operations in the menu of the list: each leads to its page with the chosen rows."""
        offered = [op for op in operations_of(self.model) if self.may(request, op)]
        return {op.name: (partial(_choose, op), op.name, op.title) for op in offered}

    def do_view(self, request: HttpRequest, operation: str) -> HttpResponse:
        """The page of one operation."""
        found = next((each for each in operations_of(self.model) if each.name == operation), None)
        if found is None:
            raise Http404
        if not self.may(request, found):
            raise PermissionDenied
        return Page(self, found, request).answer()

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Adds the buttons of what may be done, and what is told beside the fields."""
        row = next(iter(rows_of(self, request, [object_id])), None)
        offered = () if row is None else operations_of(self.model)
        more = {
            "buttons": [
                (op, self.address_of(op, object_id)) for op in offered if self.may(request, op) and op.concerns(row)
            ],
            "sections": [] if row is None else sections_of(row, partial(_may_see, request)),
        }
        return super().change_view(request, object_id, form_url, {**more, **(extra_context or {})})

    def address_of(self, operation: Operation, ids: str) -> str:
        """Where `operation` is done to the rows `ids`."""
        name = f"{self.admin_site.name}:{self.opts.app_label}_{self.opts.model_name}_do"
        return f"{reverse(name, args=[operation.name])}?ids={ids}"


def words_of(search_term: str) -> list[str]:
    """The words of a search: each is a question of its own, so they are few and not long."""
    return [word[:LONGEST_WORD] for word in search_term.split()[:MOST_WORDS] if "\0" not in word]


def in_few_words(text: str, most: int) -> str:
    """Its beginning, cut between two words where it can be, with an ellipsis; whole where it has `most` characters."""
    if len(text) <= most:
        return text
    between = text.rfind(" ", most // 3, most)
    return f"{text[: between if between > 0 else most - 1]}…"


def states_filter(field: str, states: Iterable[str]) -> type[admin.SimpleListFilter]:
    """A filter by one of a few known values: Django's own would ask the table for those that are in it, each time."""

    class Chosen(admin.SimpleListFilter):
        title, parameter_name = field.replace("_", " "), field

        def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002  Django's signature
            return [(state, state) for state in states]

        def queryset(self, request: Any, queryset: Any) -> Any:  # noqa: ARG002
            return queryset.filter(**{field: self.value()}) if self.value() else queryset

    return Chosen


def _shown(column: Column) -> Any:
    @admin.display(description=column.title, ordering=column.name)
    def show(row: Any) -> str:
        return column.text(getattr(row, column.name))

    return show


def _may_see(request: HttpRequest, model: type[Model]) -> bool:
    """By Django's permissions: who may change rows of a model may also see them."""
    app, name = model._meta.app_label, model._meta.model_name
    return any(request.user.has_perm(f"{app}.{action}_{name}") for action in ("view", "change"))


def _choose(operation: Operation, admin: ReadOnlyAdmin, request: HttpRequest, queryset: Any) -> HttpResponse | None:
    """From the list to the page of the operation. `queryset` may be all that matches a search: too many are refused."""
    ids = [str(pk) for pk in queryset.values_list("pk", flat=True)[: MOST_ROWS + 1]]
    if len(ids) > MOST_ROWS:
        messages.error(request, f"At most {MOST_ROWS} rows at once; choose fewer.")
        return None
    return HttpResponseRedirect(admin.address_of(operation, ",".join(ids)))
