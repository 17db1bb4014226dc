"""The tables of states are whole, and a page drawn from them that went stale is noticed."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from broker_project.management.commands import drawings
from jobs.states import ATTEMPT_PHASES, ENDED, INTENDED, JOB, PHASE_MOVES
from pool.states import RESOURCE
from statemachine.machine import Arrow, Machine, State

machines = pytest.mark.parametrize("machine", [JOB, RESOURCE], ids=lambda machine: machine.name)


def reachable(first: str, moves: Iterable[tuple[str, str]]) -> set[str]:
    found, new = set(), {first}
    while new:
        found |= new
        new = {target for source, target in moves if source in found} - found
    return found


@machines
def test_every_state_is_reached_from_the_first(machine: Machine) -> None:
    assert reachable(machine.first, machine.moves) == set(machine.states)


@machines
def test_from_every_state_that_is_not_terminal_there_is_a_way_on(machine: Machine) -> None:
    left = {source for source, _ in machine.moves}
    assert set(machine.states) - set(machine.terminal) <= left


def test_a_job_can_end_from_wherever_it_stands() -> None:
    for state in JOB.states:
        assert reachable(state, JOB.moves) & set(JOB.terminal), f"a job that is {state} could never end"


def test_a_session_becomes_available_again_from_wherever_it_stands() -> None:
    assert all("available" in reachable(state, RESOURCE.moves) for state in RESOURCE.states)


def test_a_terminal_state_is_left_by_replay_alone_and_a_completed_job_never() -> None:
    leaving = {(verb, s) for verb, arrow in JOB.arrows.items() for s in arrow.sources if s in JOB.terminal}
    assert leaving == {("replay", "failed"), ("replay", "cancelled")}


@machines
def test_two_states_are_joined_by_one_arrow_so_that_history_names_it(machine: Machine) -> None:
    joined = [(source, arrow.target) for arrow in machine.arrows.values() for source in arrow.sources]
    assert len(joined) == len(set(joined)) == len(machine.moves)


@machines
def test_states_and_arrows_say_what_they_mean(machine: Machine) -> None:
    assert all(state.comment for state in machine.states.values())
    assert all(arrow.cause for arrow in machine.arrows.values())


def test_an_arrow_through_an_undeclared_state_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="lamp moves through undeclared states: \\['broken'\\]"):
        Machine("lamp", "off", [State("off", "dark")], [Arrow("drop", ("off",), "broken", "it fell")])


def test_phases_of_an_attempt_only_grow() -> None:
    order = list(ATTEMPT_PHASES)
    assert all(order.index(source) < order.index(target) for source, target in PHASE_MOVES)
    assert reachable(INTENDED, PHASE_MOVES) == set(ATTEMPT_PHASES)
    assert ENDED not in {source for source, _ in PHASE_MOVES}


def test_a_stale_drawing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = tmp_path / "states.md"
    monkeypatch.setattr(drawings, "FILE", stale)
    with pytest.raises(CommandError, match=r"run `manage.py drawings`"):
        call_command("drawings", check=True)
    call_command("drawings")
    call_command("drawings", check=True)
    stale.write_text(stale.read_text().replace("pending --> assigned: assign", "pending --> assigned: grab"))
    with pytest.raises(CommandError, match="not what the states say"):
        call_command("drawings", check=True)
