"""From the file to plain maps, lists, texts and numbers: nothing else comes out, and no key is lost on the way."""

import math
from collections.abc import Hashable
from pathlib import Path
from typing import Any, Final

import yaml

from broker_project.config.findings import ConfigRefused, Findings, Place

MAX_BYTES: Final = 1_000_000
MAX_NODES: Final = 200_000  # with every alias written out: a small file can mean a very large one
MAX_DEPTH: Final = 30


def read_file(path: Path) -> dict[str, Any]:
    """The content as JSON would have it. Raises ConfigRefused with every mistake of this kind."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        text = raw.decode()
    except OSError as error:
        raise ConfigRefused([f"{path} cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise ConfigRefused([f"{path} is not UTF-8 text"]) from None
    if len(raw) > MAX_BYTES:
        raise ConfigRefused([f"{path} is larger than {MAX_BYTES} bytes"])
    return read_text(text)


def read_text(text: str) -> dict[str, Any]:
    """As read_file, of its text."""
    duplicates: list[str] = []
    try:
        loader = _Loader(text, duplicates)
        root = loader.get_single_node()
        if root is not None:
            _bounded(root, {}, 0)
        content = None if root is None else loader.construct_document(root)
    except yaml.YAMLError as error:
        raise ConfigRefused([f"not YAML: {' '.join(str(error).split())}"]) from None
    except (ValueError, RecursionError) as error:
        raise ConfigRefused([f"not usable YAML: {error}"]) from None
    findings = Findings(errors=duplicates)
    if not isinstance(content, dict | None):
        raise ConfigRefused(["the file is a map of pools, job_types and tenants"])
    _check_values(content, Place(), findings)
    findings.stop_on_errors()
    return content or {}


class _Loader(yaml.SafeLoader):
    """Keeps a list of keys that are written twice; plain YAML lets the last one win without a word."""

    def __init__(self, text: str, duplicates: list[str]) -> None:
        super().__init__(text)
        self._duplicates = duplicates

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    line = key.start_mark.line + 1
                    self._duplicates.append(f"line {line}: the key {key.value!r} is written twice in one map")
                seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def _bounded(node: Any, sizes: dict[int, int], depth: int) -> int:
    """How many nodes this one means with its aliases written out. Raises ValueError when that is too many, or endless."""
    if depth > MAX_DEPTH:
        raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
    if (known := sizes.get(id(node))) is not None:
        return known
    children = node.value if isinstance(node, yaml.SequenceNode) else []
    if isinstance(node, yaml.MappingNode):
        children = [child for pair in node.value for child in pair]
    size = 1 + sum(_bounded(child, sizes, depth + 1) for child in children)
    if size > MAX_NODES:
        raise ValueError(f"it means more than {MAX_NODES} values")
    sizes[id(node)] = size
    return size


def _check_values(value: Any, place: Place, findings: Findings) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str):
                _check_values(key, place, findings)
                _check_values(item, place.entry(key), findings)
            else:
                findings.error(place, f"the key {key!r} is read as a {type(key).__name__}, not as a text; quote it")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_values(item, place.entry(number), findings)
    elif isinstance(value, str):
        if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
            findings.error(place, "has a character in it that cannot be stored")
    elif isinstance(value, float) and not math.isfinite(value):
        findings.error(place, "is not a finite number")
    elif not isinstance(value, bool | int | float | None):
        findings.error(place, f"is read as a {type(value).__name__}, which is no value here; quote it")
