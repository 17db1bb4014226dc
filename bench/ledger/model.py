"""`python -m bench.ledger.model --runs 300 --steps 40`: the long form of the ledger's model test; says what it did."""

import argparse
import os
import subprocess
import sys

TEST = "tests/credits/test_model.py"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    size = {"BERTH_MODEL_RUNS": str(options.runs), "BERTH_MODEL_STEPS": str(options.steps)}
    command = [sys.executable, "-m", "pytest", "-q", "-s", "--durations=1", TEST]
    return subprocess.run(command, env={**os.environ, **size}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
