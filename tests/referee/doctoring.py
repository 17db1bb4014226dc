"""How evidence is doctored: statements, and lines of the log and the book that are changed or added."""

from collections.abc import Callable

from tests.referee.intact import BOOK, LOG, Doctored, changed

Doctor = Callable[[Doctored], None]
NOBODY = "00000000-0000-7000-8000-000000000009"


def sql(statement: str) -> Doctor:
    return lambda world: world.change(statement)


def log(*more: object, of: int = -1, **fields: object) -> Doctor:
    """Lines more in the log, or other fields of its `of`th."""

    def doctor(world: Doctored) -> None:
        world.log = [*changed(LOG, of, **fields), *more]  # type: ignore[list-item]

    return doctor


def book(*more: object, of: int = -1, **fields: object) -> Doctor:
    def doctor(world: Doctored) -> None:
        world.book = [*changed(BOOK, of, **fields), *more]  # type: ignore[list-item]

    return doctor


def both(*doctors: Doctor) -> Doctor:
    def doctor(world: Doctored) -> None:
        for each in doctors:
            each(world)

    return doctor
