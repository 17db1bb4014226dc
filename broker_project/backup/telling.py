"""What long work tells of itself while it goes on."""

import time
from collections.abc import Callable
from typing import Final

EVERY_SECONDS: Final = 5.0
UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")


def progress(say: Callable[[str], None], doing: str, of: int = 0) -> Callable[[int], None]:
    """A function that is called with the bytes done so far, and says so now and then."""
    said = time.monotonic()

    def tell(done: int) -> None:
        nonlocal said
        if time.monotonic() - said >= EVERY_SECONDS:
            said = time.monotonic()
            say(f"{doing}: {size_text(done)}" + (f" of {size_text(of)}" if of else ""))

    return tell


def size_text(size: float) -> str:
    """`12.3 MB`."""
    for unit in UNITS:
        if size < 1_000 or unit == UNITS[-1]:
            break
        size /= 1_000
    return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
