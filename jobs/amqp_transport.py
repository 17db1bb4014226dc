"""Kombu's AMQP transport for publishing: every answer of the broker is waited for a bounded time.

py-amqp bounds the handshake only; by its `read_timeout` alone it would go on reading when that has passed. A socket that
has the time-out itself raises, whichever method is waiting.
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
