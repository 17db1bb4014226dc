"""A short form of each race; `python -m tests.races --rounds 1000` is the long one. ROUNDS: how many of each."""

import os
from typing import Any

import pytest

from tests.races.kinds import KINDS
from tests.races.rounds import run

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = int(os.environ.get("ROUNDS", "25"))
SEED = int(os.environ.get("SEED", "1"))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.replace(" × ", " and "))
def test_of_those_that_meet_at_a_job_one_wins_and_the_money_is_right(kind: type[Any]) -> None:
    tally = run(kind(), ROUNDS, SEED)
    assert tally.rounds == ROUNDS
    if len(tally.won) > 2:  # it takes more rounds until four have found to each other
        assert len(+tally.won) > 1
    else:
        assert tally.idle() == [], tally.won
