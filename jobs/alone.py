"""One row that fails holds up nobody: a set that fails is taken row by row, and what fails alone is looked at later."""

import logging
from collections.abc import Callable, Sequence
from functools import reduce, wraps
from operator import add
from typing import Any, TypeVar, cast

from django.db import transaction

from jobs.outage import DATABASE_AWAY

Verb = TypeVar("Verb", bound=Callable[..., Any])
LATER_SECONDS = 5
HELD_BY_ANOTHER = {"55P03", "40P01", "57014"}  # lock not available, deadlock, statement cut

logger = logging.getLogger(__name__)


def row_by_row(nothing: int | list[Any], postpone: Callable[[Any, int], None] | None = None) -> Callable[[Verb], Verb]:
    """For a verb whose first argument is a set of ids and which is a transaction of its own; `nothing`: it moved none.

    `postpone` gives what fails alone a later time (seconds from now). A database that is away is no row's fault.
    """

    def decorate(verb: Verb) -> Verb:
        @wraps(verb)
        def take(ids: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            try:
                return verb(ids, *args, **kwargs)
            except Exception as error:  # whatever the data of one row provoke, the others go on
                if isinstance(error, DATABASE_AWAY) and not _of_a_row(error):
                    raise
                if len(ids) > 1:
                    return _each(take, ids, *args, **kwargs)
                failed(verb.__name__.strip("_"), ids[0], postpone)
                return nothing

        return cast("Verb", take)

    return decorate


def _each(take: Callable[..., Any], ids: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """One after the other. What was committed before the database went away is handed on; a sweep takes the rest."""
    done = [take([ids[0]], *args, **kwargs)]
    for one in ids[1:]:
        try:
            done.append(take([one], *args, **kwargs))
        except DATABASE_AWAY:
            logger.warning("the database went away after %d of %d rows", len(done), len(ids))
            break
    return reduce(add, done)


def _of_a_row(error: BaseException) -> bool:
    """Whether the database is there and only gave up on what somebody else holds."""
    return getattr(error.__cause__, "pgcode", None) in HELD_BY_ANOTHER


def failed(verb: str, row_id: Any, postpone: Callable[[Any, int], None] | None = None) -> None:
    """Says that this row failed alone (in the handler of its error), and gives it a later time."""
    again = "by a later sweep" if postpone is None else f"in {LATER_SECONDS} s"
    logger.exception("%s of %s failed; again %s", verb, row_id, again, extra={"row": str(row_id)})
    if postpone is None:
        return
    try:
        with transaction.atomic():
            postpone(row_id, LATER_SECONDS)
    except DATABASE_AWAY:
        raise
    except Exception:  # then each sweep tries it again
        logger.exception("%s could not be postponed", row_id, extra={"row": str(row_id)})
