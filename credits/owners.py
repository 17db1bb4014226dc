"""Whose accounts of the ledger are: named by their id, and found by a part of their name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from credits.models import Account
from tenants.models import Tenant


@dataclass(frozen=True)
class Owners:
    """How the owners of one kind of account are named and found."""

    name: Callable[[int], str]
    find: Callable[[str], QuerySet[Any]]  # of their ids


_OWNERS: dict[str, Owners] = dict.fromkeys(
    (Account.Kind.WALLET, Account.Kind.RECEIVABLE),
    Owners(
        lambda pk: str(Tenant.objects.filter(pk=pk).first() or pk),
        lambda word: Tenant.objects.filter(name__icontains=word).values_list("pk", flat=True),
    ),
)


def know(kind: str, owners: Owners) -> None:
    """Called once by the layer that knows the owners of accounts of this kind."""
    _OWNERS[kind] = owners


def name_of(account: Account) -> str:
    """Whose it is; of a system account, what it is."""
    if account.owner_id is None:
        return account.kind
    owners = _OWNERS.get(account.kind)
    return str(account.owner_id) if owners is None else owners.name(account.owner_id)


def found_by(word: str, most: int) -> dict[str, list[int]]:
    """By kind of account, the ids of at most so many owners whose name has `word` in it."""
    return {kind: list(owners.find(word)[:most]) for kind, owners in _OWNERS.items()}
