"""What the operations with money ask for. Every form asks for a reason."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from credits import ledger
from credits.models import Allowance
from credits.models.lots import PRIORITY
from credits.pricing import MICRO
from statemachine.sql import now

MOST_CREDITS = ledger.MAX_AMOUNT // MICRO
LAST_PRIORITY = 32_767  # of the column
LONGEST_DAYS = 3_660  # ten years
SMALLEST = Decimal("0.000001")
CATEGORIES = [("paid", "paid: a payment or a top-up"), ("promo", "promotional: a gift")]


class MomentWidget(UnfoldAdminTextInputWidget):  # type: ignore[misc]
    """The browser's own field for a date and a time."""

    input_type = "datetime-local"


class WithReason(forms.Form):
    """Kept with what was done, and the last thing that is asked for."""

    reason = forms.CharField(
        max_length=300,
        widget=UnfoldAdminTextInputWidget,
        help_text="Kept with it, under your name. E.g. the payment's number, or a ticket.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.order_fields([name for name in self.fields if name != "reason"])

    def clean_reason(self) -> str:
        """Spaces that cannot be seen give no reason."""
        reason = str(self.cleaned_data["reason"])
        if not any(character.isalnum() for character in reason):
            raise forms.ValidationError("say why, in words")
        return reason


class _Amount(forms.Form):
    amount = forms.DecimalField(
        min_value=SMALLEST,
        max_value=MOST_CREDITS,
        decimal_places=6,
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="Credits, up to six decimal places.",
    )


class _Place(forms.Form):
    """What the credits are, and where in the order of use."""

    category = forms.ChoiceField(choices=CATEGORIES, widget=UnfoldAdminSelectWidget)
    priority = forms.IntegerField(
        min_value=0,
        max_value=LAST_PRIORITY,
        initial=PRIORITY,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text=f"Advanced: lower is used first. Refunds, and what names none, have {PRIORITY}.",
    )


class GrantTerms(WithReason, _Place, _Amount):
    """How much, of which kind, and until when."""

    expires_at = forms.DateTimeField(
        required=False,
        widget=MomentWidget,
        label="Expires at (UTC)",
        help_text="What is not used by then is taken back. Empty: never.",
    )
    field_order = ["amount", "category", "expires_at", "priority"]

    def clean_expires_at(self) -> datetime | None:
        """A grant that has expired already would be of no use to anybody."""
        moment: datetime | None = self.cleaned_data["expires_at"]
        if moment is not None and moment <= (at := now()):
            raise ValidationError(f"It must lie ahead; now it is {said_moment(at, '')}.")
        return moment


class LineTerms(WithReason):
    """The new line."""

    amount = forms.DecimalField(
        min_value=0,
        max_value=MOST_CREDITS,
        decimal_places=6,
        label="Credit line",
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="Credits below zero that the tenant may use. 0: prepaid only.",
    )


class RefundTerms(WithReason):
    """How much."""

    amount = forms.DecimalField(
        required=False,
        min_value=SMALLEST,
        max_value=MOST_CREDITS,
        decimal_places=6,
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="Credits. Empty: all that is left of the charge.",
    )


class PaymentTerms(WithReason):
    """How much."""

    amount = forms.DecimalField(
        required=False,
        min_value=SMALLEST,
        max_value=MOST_CREDITS,
        decimal_places=6,
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="Credits. Empty: all that is owed.",
    )


class TopUpTerms(WithReason, _Amount):
    """How much was bought."""


class ReadingTerms(WithReason):
    """What the provider says, and whether it is known to be true."""

    amount = forms.DecimalField(
        min_value=-MOST_CREDITS,
        max_value=MOST_CREDITS,
        decimal_places=6,
        label="Left, as the provider says",
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="Credits of this account. It may be below zero.",
    )
    book = forms.BooleanField(
        required=False,
        label="Book it however far off",
        widget=UnfoldBooleanSwitchWidget,
        help_text="Only when it is known to be true. A reading that is far off is else kept, and changes nothing.",
    )


class AllowanceTerms(WithReason, _Place, _Amount):
    """How much, how often, and how long each grant lives."""

    every = forms.ChoiceField(
        choices=Allowance.Every.choices, widget=UnfoldAdminSelectWidget, help_text="Periods begin at midnight UTC."
    )
    category = forms.ChoiceField(choices=CATEGORIES, initial="promo", widget=UnfoldAdminSelectWidget)
    lifetime = forms.ChoiceField(
        choices=[
            ("next", "until the next period begins"),
            ("days", "for some days from the begin of its period"),
            ("ever", "for ever"),
        ],
        widget=UnfoldAdminSelectWidget,
        help_text="How long each grant can be used.",
    )
    days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=LONGEST_DAYS,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="Only for a lifetime in days.",
    )
    field_order = ["amount", "every", "category", "lifetime", "days", "priority"]

    def clean(self) -> dict[str, Any]:
        """Days are named when, and only when, the lifetime is counted in them."""
        given = super().clean() or self.cleaned_data
        if given.get("lifetime") == "days" and given.get("days") is None and "days" not in self.errors:
            self.add_error("days", "How many days?")
        if given.get("lifetime") in {"next", "ever"} and given.get("days") is not None:
            self.add_error("days", "Leave this empty, or choose a lifetime in days.")
        return given


def micro(data: Mapping[str, Any]) -> int:
    """The amount in micro-credits, 0 when none was filled in."""
    return int((data["amount"] or 0) * MICRO)


def said_moment(moment: datetime, before: str = "until ") -> str:
    """`until 2026-12-01 10:00 UTC`."""
    return f"{before}{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
