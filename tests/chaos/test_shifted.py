"""A process whose clock is shifted sees another time of day, and nothing else that is strange."""

import json
import os
import subprocess
import sys
import time

import pytest

from tests.chaos.faults_of_processes import SHIFTED

ASKED = """
import copy, datetime, json, time
now = datetime.datetime.now(datetime.UTC)
copied = copy.deepcopy(now)
print(json.dumps([
    time.time(), now.timestamp(), datetime.datetime.utcnow().replace(tzinfo=datetime.UTC).timestamp(), time.monotonic(),
    isinstance(now, datetime.datetime) and isinstance(copied - now, datetime.timedelta) and copied == now,
]))"""


@pytest.mark.parametrize("shift", [7200, -7200])
def test_a_clock_is_shifted_for_all_that_ask_for_the_time_of_day(shift: int) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SHIFTED), "CLOCK_SHIFT_SECONDS": str(shift)}
    command = [sys.executable, "-W", "ignore", "-c", ASKED]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    *times, monotonic, usual = json.loads(said)
    assert times == pytest.approx([time.time() + shift] * 3, abs=60)
    assert monotonic == pytest.approx(time.monotonic(), abs=60)
    assert usual
