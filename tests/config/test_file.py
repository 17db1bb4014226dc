"""From a file to plain values: what YAML would let pass without a word is refused."""

from pathlib import Path

import pytest

from broker_project.config.file import MAX_BYTES, read_file, read_text
from broker_project.config.findings import ConfigRefused

REFUSED = {
    "a: 1\na: 2": "line 2: the key 'a' is written twice in one map",
    "x: {y: {b: 1, b: 1}}": "line 1: the key 'b' is written twice",
    "a: [1": "not YAML",
    "a: !!python/object/apply:os.system [ls]": "not YAML: could not determine a constructor",
    "- a": "the file is a map of pools, job_types and tenants",
    "pools: {yes: {}}": "pools: the key True is read as a bool, not as a text; quote it",
    "pools: {1: {}}": "pools: the key 1 is read as a int",
    "a: 2024-01-01": "a: is read as a date, which is no value here; quote it",
    "a: .nan": "a: is not a finite number",
    'a: "\\0"': "a: has a character in it that cannot be stored",
    'a: "\\ud800"': "a: has a character in it that cannot be stored",
    "a: &a [*a]": "not usable YAML",
    "a: " + "[" * 40 + "]" * 40: "nested more than 30 deep",
    "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
    + "".join(
        f"{n}: &{n} [{','.join([f'*{p}'] * 10)}]\n" for p, n in zip("abcdef", "bcdefg", strict=True)
    ): "means more",
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items())
def test_a_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigRefused, match=message.replace("(", r"\(")):
        read_text(text)


def test_an_alias_may_stand_for_what_is_written_once() -> None:
    assert read_text("a: &x {b: 1}\nc: {<<: *x, d: 2}") == {"a": {"b": 1}, "c": {"b": 1, "d": 2}}


def test_an_empty_file_declares_nothing() -> None:
    assert read_text("# nothing yet") == {}


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigRefused, match="cannot be read: No such file"):
        read_file(tmp_path / "none.yaml")
    large = tmp_path / "large.yaml"
    large.write_text("#" * (MAX_BYTES + 1))
    with pytest.raises(ConfigRefused, match="larger than"):
        read_file(large)
    large.write_bytes(b"a: \xff\xfe")
    with pytest.raises(ConfigRefused, match="not UTF-8"):
        read_file(large)
