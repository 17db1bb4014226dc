"""What the tests of files share: bytes to send, and what lies in the storage."""

import io
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from files import storing
from tenants.models import Tenant
from tests import factories


def put(tenant: Tenant, content: bytes = b"bytes", **fields: Any) -> dict[str, Any]:
    """A stored input of the tenant."""
    usual = {"kind": "input", "size": len(content), "name": "a.bin", "content_type": "image/png", "keep_seconds": 60.0}
    return storing.put(tenant.pk, io.BytesIO(content), **{**usual, **fields})


def stored_places() -> set[str]:
    """What lies in the storage, as the rows call it."""
    folder = Path(settings.MEDIA_ROOT)
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def tenant() -> Tenant:
    return factories.make_tenant()


@pytest.fixture(autouse=True)
def _an_empty_storage(tmp_path: Path, settings: Any) -> None:
    settings.MEDIA_ROOT = tmp_path / "files"
