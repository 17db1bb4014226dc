"""A job type's payload_schema: checked as a JSON Schema that can be used without asking anyone else."""

from collections.abc import Iterator
from typing import Any

import jsonschema
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from broker_project.config.findings import Findings, Place


def json_schema(value: Any, place: Place, findings: Findings) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        findings.error(place, "is a JSON Schema, a map")
        return None
    validator = jsonschema.validators.validator_for(value, default=jsonschema.Draft202012Validator)
    try:
        validator.check_schema(value)
        _check_references(value)
        # A reference that leads back to itself shows at the first use.
        list(validator(value).iter_errors({}))
    except jsonschema.SchemaError as error:
        where = "".join(f".{part}" for part in error.absolute_path)
        findings.error(Place(place.path + where), f"is not JSON Schema: {error.message[:200]}")
    except RecursionError:
        findings.error(place, "refers to itself without an end")
    except (ValueError, Unresolvable) as error:
        findings.error(place, str(error))
    return value


def _check_references(schema: dict[str, Any]) -> None:
    resolver = Registry().with_resource("", DRAFT202012.create_resource(schema)).resolver()
    for reference in _references(schema):
        if not reference.startswith("#"):
            raise ValueError(f"refers to {reference!r}; only what stands in the same schema (#/$defs/…) is looked up")
        try:
            resolver.lookup(reference)
        except Unresolvable:
            raise ValueError(f"refers to {reference!r}, which is not there") from None


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for name, value in schema.items():
            if name in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)
