"""`python -m tests.referee --log FILE --book FILE --database URL`: prints violations; exit 1 when there are any."""

import argparse
import sys
from pathlib import Path

from tests.referee import RULES, Evidence, violations


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.referee", description=__doc__)
    parser.add_argument("--log", type=Path, required=True, help="JSON lines of the tenants' programs")
    parser.add_argument("--book", type=Path, action="append", default=[], help="of a simulator; once for each")
    parser.add_argument("--database", required=True, help="its URL")
    options = parser.parse_args()
    evidence = Evidence(options.log, options.book, options.database)
    found = violations(evidence)
    for violation in found:
        sys.stdout.write(f"{violation.rule}: not kept: {violation.what}\n")
        sys.stdout.writelines(f"    {row}\n" for row in violation.rows)
    counts = f"{len(evidence.requests)} requests, {len(evidence.jobs)} jobs, {len(evidence.executions)} executions"
    sys.stdout.write(f"{len(found)} of {len(RULES)} rules are broken; judged: {counts}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
