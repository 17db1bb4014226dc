"""All jobs of the table at once on one running Berth, and what became of each: by the API, the rows and the books."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

import psycopg2
import psycopg2.extras

from tests.verdicts.cells import ANSWER, MAX_RUNTIME, REFUSAL, Verdict
from tests.verdicts.declared import MAX_RUNTIME_SECONDS, TENANT, config, payload
from tests.verdicts.table import Cell
from tests.verdicts.upstreams import Upstreams
from tests.whole.running import Running, ended, wait_for

PACE_SECONDS = 0.02  # between two submits: what is tried here is no spike
ALL_SECONDS = 120
CLOCKS_SECONDS = 0.05  # by which two clocks of one machine may differ
SUCCESS = {"done", "partial"}

_ATTEMPTS = """
SELECT t.name AS type, a.number, a.dispatch_key, a.sendings, a.verdict, a.error_code,
       extract(epoch FROM a.called_at) AS called_at, a.cancels,
       extract(epoch FROM j.cancel_requested_at - a.opened_at) AS cancel_wanted_after,
       extract(epoch FROM a.ended_at) AS ended_at,
       (SELECT json_agg(json_build_object('kind', e.kind, 'after', extract(epoch FROM e.at - a.opened_at)) :: jsonb
                        || e.content ORDER BY e.id)
        FROM jobs_evidence e WHERE e.attempt_id = a.id AND e.at <= a.ended_at) AS evidence
FROM jobs_attempt a JOIN jobs_job j ON j.id = a.job_id JOIN jobs_jobtype t ON t.id = j.type_id
ORDER BY a.job_id, a.number"""


@dataclass
class Seen:
    """What became of a cell's job; `story` is for whoever has to find out why it is not as expected."""

    verdict: Verdict
    let_go_early: list[str] = field(default_factory=list)  # executions that outlasted their attempt
    story: list[Any] = field(default_factory=list)


class World:
    """Runs the table once."""

    def __init__(self, berth: Running, cells: Sequence[Cell], ending: ExitStack) -> None:
        self.berth, self.cells = berth, cells
        self.upstreams = Upstreams(cells, ending)
        variables = {name: f"CREDENTIAL_{number}" for number, name in enumerate(self.upstreams.credentials)}
        secrets = {variables[name]: secret for name, secret in self.upstreams.credentials.items()}
        berth.apply(config(self.upstreams.url_of, variables), PUBLIC_URL=berth.run["web_url"], **secrets)
        self.client = ending.enter_context(berth.client(TENANT))
        self.job_ids: dict[Cell, str] = {}

    def run(self) -> dict[str, Seen]:
        """Submits a job for each cell, waits for all, and tells by the cells' names what became of them."""
        thread = self.upstreams.begin(self._cancel)
        try:
            self._submit_all()
            wait_for(self._all_ended, ALL_SECONDS)
        finally:
            self.upstreams.stop(thread)
        wait_for(lambda: all(line["end"] for lines in self.upstreams.executions().values() for line in lines))
        jobs = {job["type"]: job for job in ended(self.client, set(self.job_ids.values())) or []}
        attempts: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for attempt in self._rows(_ATTEMPTS):
            attempts[attempt["type"]].append(attempt)
        books = self.upstreams.executions()
        return {
            cell.name: _seen(
                jobs[cell.name], attempts[cell.name], [line for name in cell.accounts for line in books.get(name, [])]
            )
            for cell in self.cells
        }

    def _submit_all(self) -> None:
        """Those that wait longest come first."""
        order = sorted(
            self.cells, key=lambda cell: (not cell.fault.flooded_seconds, cell.expected.freed != MAX_RUNTIME)
        )
        with ThreadPoolExecutor(8) as threads:
            submits = []
            flooded: set[str] = set()
            for cell in order:
                if cell.fault.flooded_seconds and self.upstreams.url_of[cell] not in flooded:
                    flooded.add(self.upstreams.url_of[cell])
                    self.upstreams.flood(cell, cell.fault.flooded_seconds)
                submits.append(threads.submit(self._submit, cell))
                time.sleep(PACE_SECONDS)
            for submit in submits:
                submit.result()

    def _submit(self, cell: Cell) -> None:
        answer = self.client.post("/v1/jobs", json={"type": cell.name, "payload": payload(cell)})
        assert answer.status_code in {200, 202}, answer.text  # 200: it has ended already
        self.job_ids[cell] = answer.json()["id"]

    def _cancel(self, cell: Cell) -> None:
        wait_for(lambda: cell in self.job_ids)
        answer = self.client.post(f"/v1/jobs/{self.job_ids[cell]}/cancel")
        assert answer.status_code in {200, 202}, answer.text

    def _all_ended(self) -> bool:
        left = self._rows("SELECT count(*) AS n FROM jobs_job WHERE state IN ('pending', 'assigned', 'processing')")
        return not left[0]["n"]

    def _rows(self, sql: str) -> list[dict[str, Any]]:
        as_dict = psycopg2.extras.RealDictCursor
        with (
            closing(psycopg2.connect(self.berth.run["database_url"])) as connection,
            connection.cursor(cursor_factory=as_dict) as cursor,
        ):
            cursor.execute(sql)
            return [dict(row) for row in cursor.fetchall()]


def _seen(job: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]], lines: Sequence[Mapping[str, Any]]) -> Seen:
    verdict = Verdict(
        state=job["state"],
        charge=float(job["credits"]["charged"]),  # type: ignore[arg-type]  equal to the whole number it should be
        ran=len(lines),
        effects=sum(line["outcome"] not in ("failed", "cancelled") or line["billed"] > 0 for line in lines),
        freed=_freed(attempts[0]),
        code=(job["error"] or {}).get("code", ""),
    )
    ends = {attempt["dispatch_key"]: float(attempt["ended_at"]) for attempt in attempts}
    early = [line["id"] for line in lines if line["end"] > ends[line["key"]] + CLOCKS_SECONDS]
    return Seen(verdict, early, [*attempts, *lines])


def _freed(attempt: Mapping[str, Any]) -> str:
    """What ended the attempt, and with it let the session go: the last that said that it is over, or nobody in the end."""
    lasted = float(attempt["ended_at"] - attempt["called_at"])
    if attempt["verdict"] == "unknown" and lasted >= MAX_RUNTIME_SECONDS:
        return MAX_RUNTIME
    # A callback only hurries the poll that confirms it.
    said = [each for each in attempt["evidence"] or [] if each["over"] and each["kind"] != "callback"]
    if not said:
        return f"nobody, after {lasted:.1f} s"
    last = said[-1]
    if last["kind"] == "answer":
        return REFUSAL if last["verdict"] == "not_executed" else ANSWER
    # Known to have ended long before, and asked for only when nothing else was left to do.
    late = last["kind"] == "poll" and lasted >= MAX_RUNTIME_SECONDS
    return f"{last['kind']}, after max_runtime" if late else str(last["kind"])
