"""What the model's test asks of the database that stands beside it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction

from tests.db import rows


@contextmanager
def refused(error: type[Exception]) -> Iterator[pytest.ExceptionInfo[Any]]:
    with pytest.raises(error) as refusal, transaction.atomic():
        yield refusal


def found_lots(tenant: int) -> list[tuple[Any, ...]]:
    return rows(
        "SELECT l.source_key, l.remaining, l.reserved FROM credits_lot l JOIN credits_account a ON a.id = l.account_id"
        " WHERE a.owner_id = %s AND a.kind = 'wallet' ORDER BY l.id",
        [tenant],
    )
