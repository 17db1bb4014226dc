"""The answer that no work was taken on: raised anywhere below the API, written there."""

from __future__ import annotations


class Refused(Exception):
    """An HTTP status, a code for programs, a message for people, and Retry-After where it means something."""

    def __init__(self, status: int, code: str, message: str, retry_after: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after
