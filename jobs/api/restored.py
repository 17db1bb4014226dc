"""What the API tells of a restore: a repeated key whose job was lost with the commits is a new job, and cannot be known.

So every answer says for 30 days when the database went back, and to when: who first sent a key between the two, and is
not told `Idempotency-Replayed`, knows that an earlier job of that key may have run.
"""

from django.db import Error
from django.http import HttpResponseBase

from jobs.queries import occupancy
from pool.queries import quarantine

LOOKED_SECONDS = 10.0
recent = occupancy.Recent(LOOKED_SECONDS, quarantine.lately)


def tell(response: HttpResponseBase) -> None:
    """Adds `Berth-Restored-At`, and `Berth-Restored-To` where it is known, while that is of interest."""
    try:
        rows = recent.rows()
    except Error:  # the answer itself is worth more; the next one tells
        return
    for row in rows:
        response["Berth-Restored-At"] = row["at"].isoformat().replace("+00:00", "Z")
        if row["went_back_to"] is not None:
            response["Berth-Restored-To"] = row["went_back_to"].isoformat().replace("+00:00", "Z")
