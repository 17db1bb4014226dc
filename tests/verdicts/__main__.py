"""`python -m tests.verdicts`: writes docs/verdicts.md from the table."""

import sys

from tests.verdicts.page import FILE, page

FILE.write_text(page(), encoding="utf-8")
sys.stdout.write(f"Wrote {FILE}.\n")
