"""The committed OpenAPI document says what the views say."""

import json
from pathlib import Path

from django.conf import settings
from django.core.management import call_command

from broker_project.errors import PROBLEMS


def test_the_document_is_fresh_and_without_a_warning(tmp_path: Path) -> None:
    fresh = tmp_path / "openapi.json"
    call_command("spectacular", format="openapi-json", file=str(fresh), validate=True, fail_on_warn=True)
    committed = settings.BASE_DIR / "docs" / "openapi.json"
    assert json.loads(fresh.read_text()) == json.loads(committed.read_text()), (
        "run: manage.py spectacular --format openapi-json --file docs/openapi.json"
    )


def test_every_operation_tells_its_problems_and_needs_a_key() -> None:
    document = json.loads((settings.BASE_DIR / "docs" / "openapi.json").read_text())
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            # An upstream that calls back has the key in its address.
            wanted = None if path.startswith("/v1/upstream/") else [{"apiKey": []}]
            assert operation.get("security") == wanted, (method, path)
            for status, response in operation["responses"].items():
                if status < "400":
                    continue
                assert list(response["content"]) == ["application/problem+json"], (method, path)
                for code in response["description"].split(", "):
                    assert PROBLEMS[code].status == int(status), (method, path, code)


def test_a_call_lists_only_what_it_can_answer() -> None:
    paths = json.loads((settings.BASE_DIR / "docs" / "openapi.json").read_text())["paths"]

    def codes(method: str, path: str) -> set[str]:
        told = paths[path][method]["responses"].items()
        return {code for status, response in told if status >= "400" for code in response["description"].split(", ")}

    of_all = {"unauthenticated", "forbidden-scope", "validation", "internal", "temporary-reduced-capacity"}
    assert codes("get", "/v1/balance") == of_all
    assert codes("delete", "/v1/files/{file}") == {*of_all, "not-found", "file-in-use", "gone"}
    assert codes("post", "/v1/upstream/{attempt}/{token}").isdisjoint(
        {"unauthenticated", "forbidden-scope", "validation"}
    )
    assert {code for path in paths for method in paths[path] for code in codes(method, path)} == {*PROBLEMS} - {
        "method-not-allowed"  # of no call that is listed
    }
