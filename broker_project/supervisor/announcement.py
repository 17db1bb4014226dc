"""What a person sees once everything runs: where to look, and the login."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.markup import escape

from broker_project.supervisor.run_file import RunFile


def announce(
    console: Console, run: RunFile, home: Path, wanted_port: int, seconds: float, *, only: Sequence[str] = ()
) -> None:
    """`only`: the processes that run, where those are not all that Berth is made of."""
    login = f"login admin, password {run.admin['password']}"
    rows = []
    if run.web_url:
        rows += [
            ("API", f"{run.web_url}/v1/", f"documentation at {run.web_url}/docs"),
            ("Admin", f"{run.web_url}/admin/", login),
        ]
    if run.flower_url:
        rows.append(("Flower", run.flower_url, "the same login" if run.web_url else login))
    if not run.web_url:
        servers = (("Postgres", run.database_url), ("Redis", run.redis_url))
        rows += [(name, _without_password(url), "password in run.json") for name, url in servers if url]
    rows.append(("Home", str(home), "data, logs/, secrets.json, and run.json with all addresses"))
    what = f"Only {escape(', '.join(only))} {'runs' if len(only) == 1 else 'run'}" if only else "Berth runs"
    it = "them" if len(only) > 1 else "it"
    lines = [f"[bold]{what}[/bold] after {seconds:.1f} s; Ctrl-C stops {it}."]
    # Not as a table of rich: where nobody tells it a width it would cut an address short.
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines += [escape(f"{name:<{widths[0]}}  {where:<{widths[1]}}  {words}") for name, where, words in rows]
    if run.web_url and not run.web_url.endswith(f":{wanted_port}"):
        lines.append(f"Port {wanted_port} is taken, so web listens at {run.web_url}.")
    if not run.web_url:
        lines.append(
            f"With BERTH_HOME={escape(str(home))} in its environment, any other process finds these addresses."
        )
    with suppress(OSError):
        console.print("\n" + "\n".join(lines), highlight=False, soft_wrap=True)


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    name, _, place = parts.netloc.rpartition("@")
    user = name.partition(":")[0]
    return parts._replace(netloc=f"{user}@{place}" if user else place).geturl()
