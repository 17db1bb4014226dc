"""What is declared of an upstream, as one block: the pool's with the job type's over it."""

from collections.abc import Mapping
from typing import Any


def merged(pool: Mapping[str, Any], job_type: Mapping[str, Any]) -> dict[str, Any]:
    """The `upstream` block that calls are made by: what the job type says wins over what the pool says."""
    return {**pool, **job_type}
