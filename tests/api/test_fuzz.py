"""Whatever is sent as a submit is accepted or refused by name, and never breaks anything inside."""

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.models import Job, JobType
from tests.api.conftest import Caller, body_of

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(-1e6, 1e6)
    | st.sampled_from([math.inf, math.nan])
    | st.text()
    | st.sampled_from(["10m", "1e400", "\0", "\ud800"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FIELDS = ["priority", "run_at", "start_deadline", "max_price", "max_attempts", "metadata", "group", "bla"]


@pytest.mark.django_db
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=JSON, fields=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3))
def test_no_body_breaks_a_submit(caller: Caller, job_type: JobType, payload: Any, fields: dict[str, Any]) -> None:
    before = Job.objects.count()
    raw = json.dumps({"type": job_type.name, "payload": payload, **fields}).encode()
    response = caller.post("/v1/jobs", raw=raw)
    assert response.status_code in (202, 400, 402, 422), (raw, response.content)
    assert Job.objects.count() - before == (response.status_code == 202)
    if response.status_code == 202:
        stored = Job.objects.get(pk=body_of(response)["id"]).payload
        assert stored == payload
