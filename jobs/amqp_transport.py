"""Kombu's AMQP transport for publishing: every answer of the broker is waited for a bounded time.

py-amqp's own `read_timeout` bounds the wait for the beginning of an answer; one that breaks off would be waited for on and
on. A socket that has the time-out itself raises, whatever is waited for.
"""

from typing import Any

from kombu.transport import pyamqp


class Connection(pyamqp.Connection):  # type: ignore[misc]
    def connect(self, *args: Any, **kwargs: Any) -> None:
        super().connect(*args, **kwargs)
        self.transport.sock.settimeout(self.read_timeout)


class Transport(pyamqp.Transport):  # type: ignore[misc]
    Connection = Connection


class SSLTransport(pyamqp.SSLTransport):  # type: ignore[misc]
    Connection = Connection
