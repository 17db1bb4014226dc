"""What a call is made of, beside payload and credential: a digest of it stays with each attempt. An upstream that is called
otherwise may know the same work by nothing.

A preset counts by its name; what the settings say (PUBLIC_URL) is none of it, since no upstream knows work by that.
"""

from collections.abc import Iterable
from typing import Final

# All that a configuration may change and an expression of `submit` may read, or that says where and how it is sent. First
# where: elsewhere another work may have the same reference.
PLACE_OF_POOL: Final = ("preset", "adapter", "base_url")
PLACE_OF_ACCOUNT: Final = ("base_url", "vars")
PLACE_OF_TYPE: Final = ("adapter", "base_url")
OF_POOL: Final = (*PLACE_OF_POOL, "headers")  # of its `upstream`
OF_ACCOUNT: Final = (*PLACE_OF_ACCOUNT, "labels")
# Of its `upstream`; in mode `callback` there is a callback_url.
OF_TYPE: Final = (*PLACE_OF_TYPE, "headers", "mode", "files")
OF_SUBMIT: Final = ("method", "path", "headers", "body")


# Of a pool as `p`, its account as `c` and a job type as `jt`, as they are declared now.
def _parts(of_pool: Iterable[str], of_account: Iterable[str], of_type: Iterable[str]) -> list[str]:
    return [
        *(f"p.upstream -> '{name}'" for name in of_pool),
        *(f"c.{name}" for name in of_account),
        *(f"jt.upstream -> '{name}'" for name in of_type),
    ]


def _md5(parts: Iterable[str]) -> str:
    return f"md5(jsonb_build_array({', '.join(parts)})::text)"


_SUBMIT: Final = [f"jt.upstream #> '{{submit,{name}}}'" for name in OF_SUBMIT]
_PLACE: Final = f"left({_md5(_parts(PLACE_OF_POOL, PLACE_OF_ACCOUNT, PLACE_OF_TYPE))}, 15)"
CALLED_AS: Final = f"{_PLACE} || ':' || left({_md5([*_parts(OF_POOL, OF_ACCOUNT, OF_TYPE), *_SUBMIT])}, 16)"
# Attempts that an earlier version sent have one digest, of less: they count as they did.
_BEFORE: Final = _md5([*_parts(OF_POOL, ["base_url"], ["adapter", "base_url", "headers"]), *_SUBMIT])
# Of an attempt as `a`.
IS_AS_CALLED: Final = f"a.called_as IN ('', {CALLED_AS}, {_BEFORE})"
AS_CALLED: Final = f"""{IS_AS_CALLED} AS declared_as_called,
    strpos(a.called_as, ':') = 0 OR starts_with(a.called_as, {_PLACE}) AS declared_where_called"""
