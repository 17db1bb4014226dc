"""What a call is made of, beside payload and credential: a digest of it stays with each attempt. An upstream that is called
otherwise may know the same work by nothing.

A preset counts by its name; what the settings say (PUBLIC_URL) is none of it, since no upstream knows work by that.
"""

from collections.abc import Iterable
from typing import Final

# All that a configuration may change and an expression of `submit` may read, or that says where and how it is sent. First
# what every call of the upstream is made of: elsewhere another work may have the same reference.
OF_POOL: Final = ("preset", "adapter", "base_url", "headers")  # of its `upstream`
OF_ACCOUNT: Final = ("base_url", "vars", "labels")
OF_TYPE: Final = ("adapter", "base_url", "headers")  # of its `upstream`, as the rest
OF_CALL: Final = ("mode", "files")  # in mode `callback` there is a callback_url
OF_SUBMIT: Final = ("method", "path", "headers", "body")


# Of a pool as `p`, its account as `c` and a job type as `jt`, as they are declared now.
def _place(of_account: Iterable[str]) -> list[str]:
    return [
        *(f"p.upstream -> '{name}'" for name in OF_POOL),
        *(f"c.{name}" for name in of_account),
        *(f"jt.upstream -> '{name}'" for name in OF_TYPE),
    ]


def _md5(parts: Iterable[str]) -> str:
    return f"md5(jsonb_build_array({', '.join(parts)})::text)"


_SUBMIT: Final = [f"jt.upstream #> '{{submit,{name}}}'" for name in OF_SUBMIT]
_CALL: Final = [f"jt.upstream -> '{name}'" for name in OF_CALL]
_PLACE: Final = f"left({_md5(_place(OF_ACCOUNT))}, 15)"
CALLED_AS: Final = f"{_PLACE} || ':' || left({_md5([*_CALL, *_SUBMIT])}, 16)"
# Attempts that an earlier version sent have one digest, of less: they count as they did.
_BEFORE: Final = _md5([*_place(["base_url"]), *_SUBMIT])
# Of an attempt as `a`.
AS_CALLED: Final = f"""a.called_as IN ('', {CALLED_AS}, {_BEFORE}) AS declared_as_called,
    strpos(a.called_as, ':') = 0 OR starts_with(a.called_as, {_PLACE}) AS declared_where_called"""
