"""How we know that a process does its work, not only that it runs."""

import re
import urllib.error
import urllib.request

from broker_project.supervisor.processes import Entry

ANSWER_SECONDS = 2

# Loopback never goes through a proxy that the environment may name.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answers_ok(url: str) -> bool:
    """Whether a GET is answered with 200 within two seconds."""
    try:
        with _direct.open(url, timeout=ANSWER_SECONDS) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def worker_is_ready(entry: Entry) -> bool:
    """Celery writes `name@host ready.` once it takes tasks."""
    return re.search(r"@\S+ ready\.", entry.log_text()) is not None
