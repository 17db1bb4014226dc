"""The committed OpenAPI document says what the views say."""

import json
from pathlib import Path

from django.conf import settings
from django.core.management import call_command


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
                assert status < "400" or list(response["content"]) == ["application/problem+json"], (method, path)
