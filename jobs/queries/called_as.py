"""What a call is made of, beside payload and credential: a digest of it stays with each attempt. An upstream that is called
otherwise may know the same work by nothing.

A preset counts by its name; what the settings say (PUBLIC_URL) is none of it, since no upstream knows work by that.
"""

from collections.abc import Iterable
from typing import Final

# All that a configuration may change and an expression of `submit` may read, or that says where and how it is sent.
OF_POOL: Final = ("preset", "adapter", "base_url", "headers")  # of its `upstream`, as of that of a type
OF_ACCOUNT: Final = ("base_url", "vars", "labels")
OF_TYPE: Final = ("adapter", "base_url", "headers", "mode", "files")  # in mode `callback` there is a callback_url
OF_SUBMIT: Final = ("method", "path", "headers", "body")


def _digest(of_account: Iterable[str], of_type: Iterable[str]) -> str:
    """Of a pool as `p`, its account as `c` and a job type as `jt`, as they are declared now."""
    parts = [
        *(f"p.upstream -> '{name}'" for name in OF_POOL),
        *(f"c.{name}" for name in of_account),
        *(f"jt.upstream -> '{name}'" for name in of_type),
        *(f"jt.upstream #> '{{submit,{name}}}'" for name in OF_SUBMIT),
    ]
    return f"md5(jsonb_build_array({', '.join(parts)})::text)"


CALLED_AS: Final = _digest(OF_ACCOUNT, OF_TYPE)
# Attempts that an earlier version sent have a digest of less, and none of the one before that: these count as they did.
_BEFORE: Final = _digest(("base_url",), ("adapter", "base_url", "headers"))
# Of an attempt as `a`.
AS_CALLED: Final = f"a.called_as IN ('', {CALLED_AS}, {_BEFORE}) AS declared_as_called"
