"""Commands of `manage.py`, one after the other in one process: its start would be most of the time of each."""

import contextlib
import io
import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

PROJECT = Path(__file__).resolve().parents[2]


class Commands:
    """The process, of the code of this folder; it is begun with the first command, and anew for another environment."""

    def __init__(self, project: Path = PROJECT) -> None:
        self._project = project
        self._process: subprocess.Popen[str] | None = None
        self._environment: dict[str, str] = {}
        self._one = threading.Lock()

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str], variables: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """As if `manage.py` had been run with them; `variables` hold for this command alone."""
        with self._one:
            if self._process is None or self._process.poll() is not None or self._environment != environment:
                self._begin(dict(environment))
            assert self._process is not None
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            print(json.dumps([list(arguments), dict(variables)]), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
            code, stdout, stderr = json.loads(answer) if answer else (self._process.wait(), "", "it was killed")
        return subprocess.CompletedProcess(["manage.py", *arguments], code, stdout, stderr)

    def stop(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _begin(self, environment: dict[str, str]) -> None:
        self.stop()
        command = [sys.executable, str(Path(__file__).resolve())]
        found_in = {**environment, "PYTHONPATH": str(self._project)}
        self._process = subprocess.Popen(
            command, cwd=self._project, env=found_in, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._environment = environment


def _serve() -> None:
    from django.core.management import execute_from_command_line
    from django.db import connections

    answers = sys.stdout
    for line in sys.stdin:
        arguments, variables = json.loads(line)
        said: dict[str, Any] = {"stdout": io.StringIO(), "stderr": io.StringIO()}
        code: Any = 0
        with patch.dict(os.environ, variables), contextlib.ExitStack() as redirected:
            redirected.enter_context(contextlib.redirect_stdout(said["stdout"]))
            redirected.enter_context(contextlib.redirect_stderr(said["stderr"]))
            try:
                execute_from_command_line(["manage.py", *arguments])
            except SystemExit as exit_:
                code = exit_.code
            except BaseException:  # noqa: BLE001  as it would end a process of its own
                traceback.print_exc()
                code = 1
        connections.close_all()
        if isinstance(code, str):
            said["stderr"].write(code)
        status = code if isinstance(code, int) else int(code is not None)
        print(json.dumps([status, said["stdout"].getvalue(), said["stderr"].getvalue()]), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
