"""Threads with a database connection each, of which the scheduler lets one run at a time.

A thread stops before each transaction and after each commit; where a seed asks for it (`fine`), before each statement. So
whoever chooses who goes on chooses the interleaving, also inside of transactions.
"""

import itertools
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from django.db import connection

SIZE = 12
# They take no lock and change nothing that others see.
_SILENT = re.compile(r"\s*(PREPARE|SAVEPOINT|RELEASE|ROLLBACK TO|SET|SELECT set_config)\b", re.IGNORECASE)
_NAME = re.compile(r"(PREPARE|EXECUTE) (berth_\w+)")
_numbers = itertools.count(1)  # they grow in the order in which tasks are made, which is that of a seed


class Crashed(BaseException):
    """The logical process ended here; no `except Exception` of the product sees it."""


@dataclass(eq=False)
class Task:
    """One piece of work of a logical process, on a thread of the crew while it lasts."""

    process: Any
    name: str
    function: Callable[[], Any]
    fine: bool = False
    number: int = field(default_factory=lambda: next(_numbers))
    at: str = "begins"  # where it stands, for the trace
    pid: int = 0  # of its backend, while it runs a statement
    in_transaction: bool = False
    committed: int = 0  # transactions that it ended since it was last let on
    blocked: bool = False
    dead: bool = False
    done: bool = False
    error: BaseException | None = None
    gate: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __str__(self) -> str:
        return f"{self.process.name} {self.name}"


class Crew:
    """`posts` tells the scheduler of tasks that stopped, or are done."""

    def __init__(self) -> None:
        self.posts: SimpleQueue[Task] = SimpleQueue()
        self.texts: dict[str, str] = {}  # of prepared statements, by name
        self._free = [_Slot(self) for _ in range(SIZE)]
        self._slots = list(self._free)

    @property
    def is_full(self) -> bool:
        return not self._free

    def begin(self, task: Task) -> None:
        """Runs it until it first stops."""
        self._free.pop(0).inbox.put(task)

    def leave(self, slot: "_Slot") -> None:
        self._free.append(slot)
        self._free.sort(key=self._slots.index)

    def stop(self) -> None:
        for slot in self._slots:
            slot.inbox.put(None)
        for slot in self._slots:
            slot.thread.join(5)


class _Slot:
    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.inbox: SimpleQueue[Task | None] = SimpleQueue()
        self.task: Task | None = None
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        connection.execute_wrappers.append(self._around)
        commit, rollback = connection._commit, connection._rollback
        connection._commit = lambda: self._ended(commit, rollback, "COMMIT")
        connection._rollback = lambda: self._ended(rollback, rollback, "")
        while (task := self.inbox.get()) is not None:
            self.task = task
            try:
                task.function()
            except BaseException as error:  # noqa: BLE001  the scheduler judges it
                task.error = error
            if task.dead:  # whatever became of it on its way out
                connection.close()
            self.task, task.done = None, True
            self.crew.leave(self)
            self.crew.posts.put(task)
        connection.close()

    def _around(self, execute: Any, sql: str, parameters: Any, many: bool, context: dict[str, Any]) -> Any:
        task = self.task
        if named := _NAME.match(sql):
            self.crew.texts.setdefault(named[2], sql.partition(" AS ")[2])
        if task is None or _SILENT.match(sql):
            return execute(sql, parameters, many, context)
        first = not task.in_transaction
        task.in_transaction = context["connection"].in_atomic_block
        if first or task.fine:
            self._stop(task, self.crew.texts.get(named[2], sql) if named else sql)
        task.pid = context["connection"].connection.info.backend_pid
        try:
            return execute(sql, parameters, many, context)
        finally:
            if task.blocked:
                self._stop(task, "has its lock")
            if not task.in_transaction:
                task.committed += 1
                self._stop(task, "committed")

    def _ended(self, end: Callable[[], None], rollback: Callable[[], None], how: str) -> None:
        task = self.task
        if task is None or not task.in_transaction:
            end()
            return
        if how and task.fine:
            try:
                self._stop(task, how)
            except Crashed:
                rollback()
                raise
        end()
        task.in_transaction, task.committed = False, task.committed + 1
        if how:
            self._stop(task, "committed")

    def _stop(self, task: Task, at: str) -> None:
        if not task.dead:
            task.at = at
            self.crew.posts.put(task)
            task.gate.acquire()
        if task.dead:
            raise Crashed
