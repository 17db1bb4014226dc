"""What is declared of an upstream, as one block: its preset, over it the pool's, over it the job type's."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from upstream.presets import preset
from upstream.ways import Ways, ways

BLOCKS: Final = ("submit", "poll", "find", "cancel", "callback")


@dataclass(frozen=True, slots=True)
class Declared:
    """A merged block, which nobody changes, and the ways it opens."""

    upstream: Mapping[str, Any]
    ways: Ways


@lru_cache(maxsize=1024)
def as_written(pool: str, job_type: str) -> Declared:
    """Of the two blocks as JSON texts, which is how rows bring them: merged once per content, not once per call."""
    upstream = merged(json.loads(pool), json.loads(job_type))
    return Declared(upstream, ways(upstream))


def merged(pool: Mapping[str, Any], job_type: Mapping[str, Any]) -> dict[str, Any]:
    """The `upstream` block that calls are made by: what the job type says wins over the pool's, that over its preset's.

    Field by field in each block, headers by their names whatever the case. What is null counts as not said, but for a
    header: null takes it away.
    """
    return overlaid(overlaid(preset(pool.get("preset")), pool), job_type)


def wants_addresses(upstream: Mapping[str, Any]) -> bool:
    """Whether a merged block wants files of payloads as their addresses alone, not as objects."""
    return upstream.get("files") == "url"


def overlaid(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` on `under`, as merged does it."""
    made = _fields(under, over)
    for name in BLOCKS:
        below, above = under.get(name), over.get(name)
        if isinstance(below, Mapping) and isinstance(above, Mapping):
            made[name] = _fields(below, above)
    return made


def _fields(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(under)
    for name, value in over.items():
        if name == "headers" and isinstance(value, Mapping) and isinstance(under.get(name), Mapping):
            made[name] = _headers(under[name], value)
        elif value not in (None, "") or name not in made:
            made[name] = value
    return made


def _headers(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    said = {name.lower() for name in over}
    return {**{name: value for name, value in under.items() if name.lower() not in said}, **over}
