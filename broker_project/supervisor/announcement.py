"""What a person sees once everything runs: where to look, and the login."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from broker_project.supervisor.run_file import RunFile


def announce(console: Console, run: RunFile, home: Path, wanted_port: int, seconds: float) -> None:
    table = Table.grid(padding=(0, 2))
    if run.web_url:
        table.add_row("API", f"{run.web_url}/v1/", "documentation at /docs")
        table.add_row("Admin", f"{run.web_url}/admin/", f"login admin, password {run.admin['password']}")
        table.add_row("Flower", run.flower_url, "the same login")
    table.add_row("Home", str(home), "data, logs/, secrets.json, and run.json with all addresses")
    console.print(f"\n[bold]Berth runs[/bold] after {seconds:.1f} s; Ctrl-C stops it.", highlight=False)
    console.print(table, highlight=False, soft_wrap=True)
    if run.web_url and not run.web_url.endswith(f":{wanted_port}"):
        console.print(f"Port {wanted_port} is taken, so web listens at {run.web_url}.", highlight=False)
