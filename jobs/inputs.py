"""Files in payloads: an object whose only member is `file`, a file's id, is a reference to it.

A reference is checked at submit and kept as a row, so that what a job needs does not expire before it ends. When the job is
sent, expressions see in its place an object with the file's address, name, type and size, or, where the type's `upstream` says
`files: url`, the address alone. Without PUBLIC_URL there is no such address: then nothing may refer to a file.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from files import queries, tokens
from jobs.queries import inputs as jobs

MEMBER: Final = "file"
MOST_FILES: Final = 100  # of one payload
NO_ADDRESS: Final = "no_file_address"
FILE_GONE: Final = "file_gone"
NO_PUBLIC_URL: Final = "files cannot be used here: there is no address at which an upstream could fetch them"
GRACE_SECONDS: Final = 3_600.0  # an address is good for so long after its job has ended

Fault = tuple[str, str]  # JSON pointer, what is wrong there
Reference = tuple[str, str]  # JSON pointer to the id, the id as it was sent
TokenOf = Callable[[UUID], str]  # of a file, what lets read it


def references(payload: Any) -> list[Reference]:
    """Every reference in the payload, in its order."""
    return list(_walk(payload))


def faults(tenant_id: int, found: list[Reference]) -> list[Fault]:
    """What keeps these from being used by the tenant now."""
    return _faults(tenant_id, found, lock=False) if found else []


def refer(tenant_id: int, job_id: UUID, found: list[Reference]) -> list[Fault]:
    """The job refers to these files from now on, unless something keeps it from that, which is returned.

    Within the transaction of the submit. Locks the files before all else; one that is being deleted or expired meanwhile is
    waited for, and found gone.
    """
    if not found:
        return []
    if wrong := _faults(tenant_id, found, lock=True):
        return wrong
    queries.refer(job_id, sorted(_ids(found)))
    return []


def as_sent(payload: Any, token_of: TokenOf, addresses: bool) -> Any:
    """The payload as expressions see it: for a reference its file's `url`, or that with `name`, `content_type`, `size`.

    `addresses`: the url alone. What is not there any more, or has no address, stays a bare reference, so that `unsendable`
    tells of what is returned why it may not be sent.
    """
    if not settings.PUBLIC_URL or not (found := [each for each in references(payload) if _is_id(each[1])]):
        return payload
    files = queries.by_ids(sorted(_ids(found)))
    seen = {}
    for _pointer, text in found:
        if (row := files.get(UUID(text))) is None:
            continue
        url = f"{settings.PUBLIC_URL}/v1/files/{row['id']}/content?token={token_of(row['id'])}"
        about = {name: row[name] for name in ("name", "content_type", "size")}
        seen[text] = url if addresses else {MEMBER: text, "url": url, **about}
    return _replaced(payload, seen)


def token_for(job_id: UUID) -> TokenOf:
    """Tokens of what is sent for this job. They hold no time, since a repeat has to be the same to the letter, whenever it
    goes out: an upstream that compares bodies refuses another. `may_read` says how long they are good.
    """
    return lambda file_id: tokens.for_job(file_id, job_id)


def token_for_trial(runtime_seconds: float) -> TokenOf:
    """Tokens of what is sent for no job: good until the upstream must have ended, and GRACE_SECONDS longer."""
    return lambda file_id: tokens.for_seconds(file_id, runtime_seconds + GRACE_SECONDS)


def may_read(file_id: UUID, token: str) -> bool:
    """Whether the token lets read the file now: its time is not over, or its job goes on, or has ended within GRACE_SECONDS.

    A job goes on for as long as its upstream may (`max_runtime`, and repeats), and no longer than an operator wants.
    """
    if (job_id := tokens.job_of(file_id, token)) is not None:
        return jobs.ended_within(job_id, GRACE_SECONDS)
    return tokens.is_valid(file_id, token)


def unsendable(payload: Any) -> tuple[str, str] | None:
    """Code and reason why this, which `as_sent` returned, may not be sent. None: it may."""
    left = references(payload)
    if left and not settings.PUBLIC_URL:
        return NO_ADDRESS, NO_PUBLIC_URL
    return (FILE_GONE, f"the file {left[0][1]} is not there any more") if left else None


def _faults(tenant_id: int, found: list[Reference], lock: bool) -> list[Fault]:
    if not settings.PUBLIC_URL:
        return [(pointer, NO_PUBLIC_URL) for pointer, _text in found[:1]]
    if len(found) > MOST_FILES:
        return [(found[MOST_FILES][0], f"a payload may refer to {MOST_FILES} files")]
    wrong = [(pointer, "must be the id of a file") for pointer, text in found if not _is_id(text)]
    if wrong:
        return wrong
    usable = queries.usable(tenant_id, sorted(_ids(found)), lock)
    for pointer, text in found:
        row = usable.get(UUID(text))
        if row is None or not row["lasts"]:
            wrong.append((pointer, "there is no such file" if row is None else "the file has expired"))
    return wrong


def _ids(found: Iterable[Reference]) -> set[UUID]:
    return {UUID(text) for _pointer, text in found}


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get(MEMBER), str)


def _walk(payload: Any) -> Iterator[Reference]:
    """Without recursion; as deep as a body may be."""
    todo: list[tuple[Any, str]] = [(payload, "/payload")]
    while todo:
        value, pointer = todo.pop()
        if _is_reference(value):
            yield f"{pointer}/{MEMBER}", value[MEMBER]
        elif isinstance(value, dict):
            names = ((name, name.replace("~", "~0").replace("/", "~1")) for name in value)
            todo += reversed([(value[name], f"{pointer}/{escaped}") for name, escaped in names])
        elif isinstance(value, list):
            todo += reversed([(item, f"{pointer}/{place}") for place, item in enumerate(value)])


def _replaced(value: Any, seen: dict[str, Any]) -> Any:
    if _is_reference(value):
        return seen.get(value[MEMBER], value)
    if isinstance(value, dict):
        return {name: _replaced(item, seen) for name, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, seen) for item in value]
    return value
