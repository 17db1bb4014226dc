"""The simulators: one that deduplicates and one that does not, and such a pair for each flood."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx

from tests.verdicts.table import Cell
from tests.whole.running import simulator

LOOK_SECONDS = 0.1
FLOOD_SECONDS = 3  # longer than our patience with the answer


Place = tuple[str, bool]  # group, whether it deduplicates


class Upstreams:
    """Where each cell's work is done, and what is to happen once it was taken there."""

    def __init__(self, cells: Iterable[Cell], ending: ExitStack) -> None:
        self.cells = list(cells)
        groups = sorted({self._place(cell) for cell in self.cells})
        starts = {place: () if place[1] else ("--no-idempotency",) for place in groups}
        urls = {place: ending.enter_context(simulator(*arguments)) for place, arguments in starts.items()}
        self.controls = {
            place: ending.enter_context(httpx.Client(base_url=url, timeout=30)) for place, url in urls.items()
        }
        self.url_of = {cell: urls[self._place(cell)] for cell in self.cells}
        names = [name for cell in self.cells for name in cell.accounts]
        self.credentials = {name: f"sim-{number}" for number, name in enumerate(names)}
        self._declare()
        self._stopped = threading.Event()

    def flood(self, cell: Cell, seconds: float) -> None:
        """Nobody at this cell's upstream gets anything for so long."""
        self._control(cell, {"fault": {"ip_429": seconds}})

    def begin(self, cancel: Callable[[Cell], None]) -> threading.Thread:
        """Lets happen what is to happen, until `stop`; `cancel` speaks for the tenant."""
        thread = threading.Thread(target=self._run, args=(cancel,))
        thread.start()
        return thread

    def stop(self, thread: threading.Thread) -> None:
        self._stopped.set()
        thread.join()

    def executions(self, places: Iterable[Place] | None = None) -> dict[str, list[dict[str, Any]]]:
        """By account, as in the books; of all upstreams, or those at these places."""
        by_account: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for control in self.controls.values() if places is None else [self.controls[place] for place in places]:
            for line in control.get("/book", params={"limit": 100_000}).json():
                by_account[line["account"]].append(line)
        return by_account

    def overlaps(self) -> int:
        """How often an account was sent more than it has sessions."""
        return sum(int(control.get("/report").json()["overlaps"]) for control in self.controls.values())

    def _place(self, cell: Cell) -> Place:
        return cell.fault.group, cell.means == "idempotent"

    def _declare(self) -> None:
        for place, control in self.controls.items():
            accounts = [
                {"name": name, "credential": self.credentials[name], "sessions": 1}
                | (cell.fault.first.get("account", {}) if name == cell.accounts[0] else {})
                for cell in self.cells
                if self._place(cell) == place
                for name in cell.accounts
            ]
            control.post("/control/accounts", json=accounts).raise_for_status()
        for cell in self.cells:
            if fault := cell.fault.first.get("fault"):
                self._control(cell, {"account": cell.accounts[0], "fault": fault})

    def _run(self, cancel: Callable[[Cell], None]) -> None:
        waiting = [cell for cell in self.cells if cell.fault.then]
        taken_at: dict[Cell, float] = {}
        with ThreadPoolExecutor(8) as threads:
            while not self._stopped.wait(LOOK_SECONDS):
                taken = self.executions({self._place(cell) for cell in waiting})
                for cell in waiting:
                    if any(taken.get(name) for name in cell.accounts):
                        taken_at.setdefault(cell, time.monotonic())
                due = [cell for cell in waiting if self._is_due(cell, taken_at)]
                list(threads.map(self._happen, due, [cancel] * len(due)))
                waiting = [cell for cell in waiting if cell not in due]

    def _is_due(self, cell: Cell, taken_at: Mapping[Cell, float]) -> bool:
        """A flood comes when all that it is to meet are there."""
        met = (
            [each for each in self.cells if self._place(each) == self._place(cell)]
            if cell.fault.then == "flood"
            else [cell]
        )
        return all(each in taken_at and time.monotonic() >= taken_at[each] + each.fault.then_seconds for each in met)

    def _happen(self, cell: Cell, cancel: Callable[[Cell], None]) -> None:
        match cell.fault.then:
            case "cancel":
                cancel(cell)
            case "ban":
                for account in cell.accounts:
                    self._control(cell, {"account": account, "fault": {"ban": True}})
            case "refuse":
                for account in cell.accounts:
                    rule = {"account": account, "fault": {"fail": 503}, "times": 1, "repeats": True}
                    self._control(cell, rule)
            case "leave":
                control = self.controls[self._place(cell)]
                control.delete("/control/faults", params={"account": cell.accounts[0]}).raise_for_status()
            case "flood":
                self.flood(cell, FLOOD_SECONDS)

    def _control(self, cell: Cell, rule: dict[str, Any]) -> None:
        self.controls[self._place(cell)].post("/control/faults", json=rule).raise_for_status()
