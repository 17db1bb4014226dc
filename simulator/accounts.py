"""The provider's accounts: who may run how much at one time, and which session each execution sits on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from simulator.executions import Execution

OVER_LIMIT = ("reject", "queue", "ban")
MOST_ACCOUNTS = 100_000
MOST_SESSIONS = 100_000
MOST_WAITING = 10_000


class BadAccount(ValueError):
    """A declared account lacks something or says something impossible."""


@dataclass(slots=True, eq=False)
class Account:
    """`sessions` run at one time; `strangers` of them are used by others; `balance` (units) None: not tracked."""

    name: str
    credential: str
    sessions: int = 1
    over_limit: str = "reject"
    balance: float | None = None
    banned: bool = False
    strangers: int = 0
    over_limit_fault: str = ""
    running: dict[int, Execution] = field(default_factory=dict)
    free: deque[int] = field(default_factory=deque)
    waiting: deque[Execution] = field(default_factory=deque)
    by_key: dict[str, Execution] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.set_sessions(self.sessions)

    @property
    def is_full(self) -> bool:
        """The caller's own executions already fill every session it may use; strangers do not count here."""
        return len(self.running) >= self.sessions

    @property
    def has_room(self) -> bool:
        return len(self.running) + self.strangers < self.sessions

    def can_pay(self, units: float) -> bool:
        if self.balance is None:
            return True
        promised = sum(execution.ask.units for execution in (*self.running.values(), *self.waiting))
        return self.balance >= promised + units

    def seat(self, execution: Execution) -> None:
        """Takes the session that has been free for longest."""
        execution.slot = self.free.popleft()
        self.running[execution.slot] = execution

    def leave(self, execution: Execution) -> None:
        if execution.slot:
            del self.running[execution.slot]
            if execution.slot <= self.sessions:
                self.free.append(execution.slot)
        elif execution in self.waiting:
            self.waiting.remove(execution)

    def set_sessions(self, sessions: int) -> None:
        """A smaller limit ends nothing: it holds as soon as enough of the running have left."""
        self.sessions = sessions
        self.free = deque(slot for slot in range(1, sessions + 1) if slot not in self.running)

    def line(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sessions": self.sessions,
            "running": len(self.running),
            "waiting": len(self.waiting),
            "strangers": self.strangers,
            "over_limit": self.over_limit_fault or self.over_limit,
            "balance": self.balance,
            "banned": self.banned,
        }


class Accounts:
    """All accounts, by name and by credential."""

    def __init__(self) -> None:
        self._by_name: dict[str, Account] = {}
        self.by_credential: dict[str, Account] = {}

    def __iter__(self) -> Iterator[Account]:
        return iter(self._by_name.values())

    def named(self, name: str) -> Account | None:
        return self._by_name.get(name)

    def declare(self, written: Mapping[str, Any]) -> Account:
        """Create or change an account; what runs on it is not touched. BadAccount names what is wrong."""
        name = written.get("name")
        if not isinstance(name, str) or not name:
            raise BadAccount("an account needs a name")
        unknown = set(written) - {"name", "credential", "sessions", "over_limit", "balance", "banned"}
        if unknown:
            raise BadAccount(f"account {name}: unknown {', '.join(sorted(unknown))}")
        account = self._by_name.get(name)
        credential = _credential(written, account)
        owner = self.by_credential.get(credential)
        if owner is not None and owner is not account:
            raise BadAccount(f"account {name}: its credential belongs to {owner.name}")
        sessions, over_limit, balance = _sessions(written), _over_limit(written), _balance(written)
        if account is None:
            if len(self._by_name) >= MOST_ACCOUNTS:
                raise BadAccount(f"more than {MOST_ACCOUNTS} accounts")
            account = self._by_name[name] = Account(name, credential)
        self.by_credential.pop(account.credential, None)
        account.credential = credential
        self.by_credential[credential] = account
        if sessions is not None:
            account.set_sessions(sessions)
        account.over_limit = over_limit or account.over_limit
        account.balance = balance if "balance" in written else account.balance
        account.banned = bool(written.get("banned", account.banned))
        return account

    def remove(self, name: str) -> bool:
        """Forget an account; what still runs on it ends in the book. False: there was none."""
        account = self._by_name.pop(name, None)
        if account is None:
            return False
        del self.by_credential[account.credential]
        return True


def _credential(written: Mapping[str, Any], account: Account | None) -> str:
    credential = written.get("credential", account.credential if account else None)
    if not isinstance(credential, str) or not credential:
        raise BadAccount(f"account {written['name']}: needs a credential")
    return credential


def _sessions(written: Mapping[str, Any]) -> int | None:
    sessions = written.get("sessions")
    if sessions is None:
        return None
    if not isinstance(sessions, int) or isinstance(sessions, bool) or not 0 <= sessions <= MOST_SESSIONS:
        raise BadAccount(f"account {written['name']}: sessions must be a whole number up to {MOST_SESSIONS}")
    return sessions


def _over_limit(written: Mapping[str, Any]) -> str:
    over_limit = written.get("over_limit", "")
    if over_limit and over_limit not in OVER_LIMIT:
        raise BadAccount(f"account {written['name']}: over_limit must be one of {', '.join(OVER_LIMIT)}")
    return str(over_limit)


def _balance(written: Mapping[str, Any]) -> float | None:
    balance = written.get("balance")
    if balance is not None and (isinstance(balance, bool) or not isinstance(balance, int | float)):
        raise BadAccount(f"account {written['name']}: balance must be a number of units, or null")
    return balance
