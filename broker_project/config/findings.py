"""What is found while the file is checked: every mistake with its place, and what is accepted but not enforced yet."""

from dataclasses import dataclass, field


class ConfigRefused(Exception):
    """The file is not applied, and nothing is stored. `errors` has one line per mistake, each with its place."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


@dataclass(frozen=True)
class Place:
    """Where in the file: `path` as the reader writes it; `pattern` with `*` for names, alike for like entries."""

    path: str = ""
    pattern: str = ""

    def field(self, name: str) -> "Place":
        return Place(f"{self.path}.{name}".lstrip("."), f"{self.pattern}.{name}".lstrip("."))

    def entry(self, name: object) -> "Place":
        return Place(f"{self.path}.{name}".lstrip("."), f"{self.pattern}.*".lstrip("."))


@dataclass
class Findings:
    errors: list[str] = field(default_factory=list)
    _notes: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    _wrong: set[str] = field(default_factory=set)

    def error(self, place: Place, problem: str) -> None:
        self._wrong.add(place.path)
        self.errors.append(f"{place.path}: {problem}" if place.path else problem)

    def lacking(self, place: Place, problem: str, *elsewhere: Place) -> None:
        """An error of what is not there, unless it is, here or `elsewhere`, and was refused: of that one line is enough."""
        if not any(self._is_wrong(each.path) for each in (place, *elsewhere)):
            self.error(place, problem)

    def later(self, place: Place, what: str = "is accepted but not enforced yet") -> None:
        """Notes a field whose work comes later; like notes of many entries become one line."""
        self._notes.setdefault((place.pattern, what), []).append(place.path)

    def _is_wrong(self, path: str) -> bool:
        """Whether there is an error of it, of a part of it, or of what it is a part of."""
        return any(
            f"{path}.".startswith(f"{each}.") or f"{each}.".startswith(f"{path}.") for each in self._wrong if each
        )

    @property
    def warnings(self) -> list[str]:
        lines = []
        for (_, what), paths in self._notes.items():
            like = f" (and {len(paths) - 1} like it)" if len(paths) > 1 else ""
            lines.append(f"{paths[0]} {what}{like}")
        return lines

    def stop_on_errors(self) -> None:
        """Raises ConfigRefused when there was any mistake."""
        if self.errors:
            raise ConfigRefused(self.errors)
