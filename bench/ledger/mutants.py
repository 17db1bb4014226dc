"""`python -m bench.ledger.mutants`: money with one fault sown at a time; its tests have to find each.

A fault is a text replaced in a copy of the tree, in which its tests then run (`tests/credits`, if TESTS names no others).
Prints a table; exit code 0 when none survived but those that are explained here.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.ledger.faults import FAULTS, HARMLESS, TESTS

ROOT = Path(__file__).parents[2]
PARTS = ("broker_project", "jobs", "upstream", "pool", "credits", "files", "webhooks", "tenants", "statemachine", "simulator",
         "tests", "bench", "docs", "manage.py", "pyproject.toml", "broker.example.yaml")  # fmt: skip
LONGEST_SECONDS = 300


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="those whose fault has this text in it")
    options = parser.parse_args()
    survived = 0
    for file, faults in FAULTS.items():
        for fault, text, instead in faults:
            if options.only in fault:
                started = time.monotonic()
                verdict = trial(file, text, instead) or HARMLESS.get(fault, "SURVIVED")
                survived += verdict == "SURVIVED"
                print(f"{fault:<64} {time.monotonic() - started:>4.0f} s  {verdict}", flush=True)
    print(f"{survived} survived")
    return 1 if survived else 0


def trial(file: str, text: str, instead: str) -> str:
    """The first test that failed, or nothing when the fault lives."""
    with tempfile.TemporaryDirectory(prefix="berth-mutant-") as folder:
        tree = Path(folder)
        for part in PARTS:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, tree / part)
        content = (tree / file).read_text(encoding="utf-8")
        if content.count(text) != 1:
            raise ValueError(f"this stands {content.count(text)} times in {file}: {text}")
        (tree / file).write_text(content.replace(text, instead), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "--show-capture=no",
                   *TESTS.get(file, ("tests/credits",))]  # fmt: skip
        try:
            # It only has to fail; the shortest walk to it is of no use here.
            env = {**os.environ, "BERTH_MODEL_SHRINK": "no"}
            tested = subprocess.run(
                command, cwd=tree, env=env, capture_output=True, text=True, check=False, timeout=LONGEST_SECONDS
            )
        except subprocess.TimeoutExpired:
            return "killed: the tests do not end"
    if tested.returncode == 0:
        return ""
    failed = [line for line in tested.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "killed by " + (failed[0].split(" ")[1].removeprefix("tests/") if failed else "an error")[:70]


if __name__ == "__main__":
    sys.exit(main())
