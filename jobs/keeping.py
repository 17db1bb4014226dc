"""Files are kept as long as they are needed: what has expired, and what a crash left half arrived, goes; in bounded batches."""

from files import leaving
from jobs.queries.inputs import unfinished

FILES_OF_A_ROUND, MOST_ROUNDS = 200, 20  # what is left comes a minute later


def clean_files() -> None:
    """Files whose time is over leave, the bytes of those that leave are deleted, rows of those long gone too.

    Each round is a transaction of its own and may be cut anywhere: the next one goes on where it stood.
    """
    for step in (lambda limit: leaving.expire(unfinished, limit), leaving.remove, leaving.forget):
        for _ in range(MOST_ROUNDS):
            if step(FILES_OF_A_ROUND) < FILES_OF_A_ROUND:
                break
