"""Questions about files, and the statements that move them on."""

from collections.abc import Sequence
from uuid import UUID

from statemachine.sql import Row, fetch

_SHOWN = "f.id, f.name, f.content_type, f.size, f.sha256, f.created_at, f.expires_at"
_NOW = "clock_timestamp()"


def lock_usage(tenant_id: int) -> Row:
    """The tenant's counts, locked; made with its first file."""
    fetch(
        """INSERT INTO files_usage (tenant_id, input_bytes, result_bytes) VALUES (%s, 0, 0)
           ON CONFLICT (tenant_id) DO NOTHING""",
        [tenant_id],
    )
    return fetch(
        "SELECT input_bytes, result_bytes FROM files_usage WHERE tenant_id = %s FOR NO KEY UPDATE", [tenant_id]
    )[0]


def used(tenant_id: int, kind: str) -> int:
    """The bytes of the tenant's files of this kind; nothing is locked."""
    column = {"input": "input_bytes", "result": "result_bytes"}[kind]
    row = _first(fetch(f"SELECT {column} AS bytes FROM files_usage WHERE tenant_id = %s", [tenant_id]))
    return int(row["bytes"]) if row else 0


def count(tenant_id: int, kind: str, size: int) -> None:
    """Adds to the (locked) counts; `size` may be negative."""
    column = {"input": "input_bytes", "result": "result_bytes"}[kind]
    fetch(f"UPDATE files_usage SET {column} = {column} + %s WHERE tenant_id = %s", [size, tenant_id])


def insert(row: Row, seconds: float) -> None:
    """A file that arrives, which is given up after `seconds`."""
    fetch(
        f"""INSERT INTO files_file (id, tenant_id, kind, name, content_type, size, sha256, place, expires_at)
            VALUES (%(id)s, %(tenant_id)s, %(kind)s, %(name)s, %(content_type)s, %(size)s, '', %(place)s,
                    {_NOW} + make_interval(secs => %(seconds)s))""",
        {**row, "seconds": seconds},
    )


def stored(file_id: UUID, size: int, sha256: str, seconds: float) -> Row | None:
    """Its last byte is written: it is kept `seconds`. None when it was given up meanwhile."""
    return _first(
        fetch(
            f"""UPDATE files_file f SET stored_at = {_NOW}, size = %s, sha256 = %s,
                       expires_at = {_NOW} + make_interval(secs => %s)
                WHERE id = %s AND stored_at IS NULL AND leaving_at IS NULL
                RETURNING {_SHOWN}, f.kind, f.tenant_id, f.place""",
            [size, sha256, seconds, file_id],
        )
    )


def of_tenant(tenant_id: int, file_id: UUID) -> Row | None:
    """One file with what serving it needs; None when the tenant has none, or it has not arrived."""
    return _first(
        fetch(
            f"""SELECT {_SHOWN}, f.kind, f.place, f.leaving_at FROM files_file f
                WHERE f.tenant_id = %s AND f.id = %s AND f.stored_at IS NOT NULL""",
            [tenant_id, file_id],
        )
    )


def listed(tenant_id: int, kind: str | None, before: UUID | None, limit: int) -> list[Row]:
    """The tenant's files that may be used, newest first, those before the id `before`; of one kind, if any is given."""
    return fetch(
        f"""SELECT {_SHOWN}, f.kind FROM files_file f
            WHERE f.tenant_id = %(tenant)s AND f.stored_at IS NOT NULL AND f.leaving_at IS NULL
              AND (%(kind)s::text IS NULL OR f.kind = %(kind)s) AND (%(before)s::uuid IS NULL OR f.id < %(before)s)
            ORDER BY f.id DESC LIMIT %(limit)s""",
        {"tenant": tenant_id, "kind": kind, "before": before, "limit": limit},
    )


def usage(tenant_id: int) -> Row:
    """The bytes of the tenant's files that are not gone: input_bytes, result_bytes."""
    rows = fetch("SELECT input_bytes, result_bytes FROM files_usage WHERE tenant_id = %s", [tenant_id])
    return rows[0] if rows else {"input_bytes": 0, "result_bytes": 0}


def by_id(file_id: UUID) -> Row | None:
    """The same whoever's it is: for an address that proves by itself that it may be asked for."""
    return _first(
        fetch(
            f"""SELECT {_SHOWN}, f.kind, f.place, f.leaving_at FROM files_file f
                WHERE f.id = %s AND f.stored_at IS NOT NULL""",
            [file_id],
        )
    )


def by_ids(file_ids: Sequence[UUID]) -> dict[UUID, Row]:
    """Those of these that may be used, by id, whoever's and also when their time is over."""
    rows = fetch(
        f"""SELECT {_SHOWN} FROM files_file f
            WHERE f.id = ANY(%s) AND f.stored_at IS NOT NULL AND f.leaving_at IS NULL""",
        [list(file_ids)],
    )
    return {row["id"]: row for row in rows}


def usable(tenant_id: int, file_ids: Sequence[UUID], lock: bool = False) -> dict[UUID, Row]:
    """Which of these the tenant may refer to now, by id. `lock`: they stay so until the transaction ends."""
    rows = fetch(
        f"""SELECT {_SHOWN}, f.expires_at > {_NOW} AS lasts FROM files_file f
            WHERE f.tenant_id = %s AND f.id = ANY(%s) AND f.stored_at IS NOT NULL AND f.leaving_at IS NULL
            ORDER BY f.id {"FOR KEY SHARE" if lock else ""}""",
        [tenant_id, list(file_ids)],
    )
    return {row["id"]: row for row in rows}


def refer(job_id: UUID, file_ids: Sequence[UUID]) -> None:
    """The job refers to these (locked) files."""
    fetch(
        """INSERT INTO files_reference (file_id, job_id) SELECT f, %s FROM unnest(%s::uuid[]) f
           ON CONFLICT (file_id, job_id) DO NOTHING""",
        [job_id, list(file_ids)],
    )


def referring(file_ids: Sequence[UUID]) -> list[Row]:
    """The references to these files: file_id, job_id."""
    return fetch("SELECT file_id, job_id FROM files_reference WHERE file_id = ANY(%s)", [list(file_ids)])


def lock(tenant_id: int, file_id: UUID) -> Row | None:
    """One file, locked against whoever wants to refer to it."""
    return _first(
        fetch(
            """SELECT id, leaving_at FROM files_file
               WHERE tenant_id = %s AND id = %s AND stored_at IS NOT NULL FOR UPDATE""",
            [tenant_id, file_id],
        )
    )


def lock_expired(limit: int) -> list[UUID]:
    """Files whose time is over, also those that never arrived; locked, what is locked is skipped."""
    rows = fetch(
        f"""SELECT id FROM files_file WHERE leaving_at IS NULL AND expires_at <= {_NOW}
            ORDER BY expires_at, id LIMIT %s FOR UPDATE SKIP LOCKED""",
        [limit],
    )
    return [row["id"] for row in rows]


def prolong(file_ids: Sequence[UUID], seconds: float) -> None:
    """These (locked) files are looked at again after `seconds`."""
    fetch(
        f"UPDATE files_file SET expires_at = {_NOW} + make_interval(secs => %s) WHERE id = ANY(%s)",
        [seconds, list(file_ids)],
    )


def leave(file_ids: Sequence[UUID]) -> None:
    """Nobody may use these files from now on. What leaves already stays as it is."""
    fetch(
        f"UPDATE files_file SET leaving_at = {_NOW} WHERE id = ANY(%s) AND leaving_at IS NULL",
        [sorted(file_ids)],
    )


def leaving(limit: int) -> list[Row]:
    """Files whose bytes are to be deleted: id, place."""
    return fetch(
        """SELECT id, place FROM files_file WHERE leaving_at IS NOT NULL AND gone_at IS NULL
           ORDER BY leaving_at, id LIMIT %s""",
        [limit],
    )


def later(file_id: UUID) -> None:
    """Its bytes could not be deleted: it goes to the end of the line."""
    fetch(f"UPDATE files_file SET leaving_at = {_NOW} WHERE id = %s AND gone_at IS NULL", [file_id])


def gone(file_ids: Sequence[UUID]) -> list[Row]:
    """The bytes of these are deleted: tenant_id, kind, bytes that are to be counted no more. Locks them in id order."""
    fetch("SELECT id FROM files_file WHERE id = ANY(%s) ORDER BY id FOR UPDATE", [list(file_ids)])
    return fetch(
        f"""WITH gone AS (
                UPDATE files_file SET gone_at = {_NOW}
                WHERE id = ANY(%s) AND leaving_at IS NOT NULL AND gone_at IS NULL RETURNING id, tenant_id, kind, size),
            unreferred AS (DELETE FROM files_reference r USING gone WHERE r.file_id = gone.id)
            SELECT tenant_id, kind, sum(size)::bigint AS bytes FROM gone GROUP BY tenant_id, kind ORDER BY tenant_id, kind""",
        [list(file_ids)],
    )


def long_gone(days: int, limit: int) -> list[Row]:
    """Rows that only say that a file was there: id, place."""
    return fetch(
        f"""SELECT id, place FROM files_file WHERE gone_at < {_NOW} - make_interval(days => %s)
            ORDER BY gone_at, id LIMIT %s""",
        [days, limit],
    )


def forget(file_ids: Sequence[UUID]) -> None:
    """Deletes the rows of files that are gone."""
    fetch("DELETE FROM files_file WHERE id = ANY(%s) AND gone_at IS NOT NULL", [list(file_ids)])


def _first(rows: Sequence[Row]) -> Row | None:
    return rows[0] if rows else None
