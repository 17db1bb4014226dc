"""Kombu's Redis transport without what our messages do not need: they are hints, and the sweep finds what one of them lost.

A message is gone from Redis once a worker has taken it. Kombu would keep a copy, which costs two round trips a message,
gives the hints of a dead worker to others only an hour later, and ends the worker when the connection breaks while it
holds copies: it then wants to put them back by a connection that is closed already.
"""

from typing import Any

import kombu
from kombu.transport import redis as kombu_redis


class Channel(kombu_redis.Channel):  # type: ignore[misc]
    ack_emulation = False
    do_restore = False


class Transport(kombu_redis.Transport):  # type: ignore[misc]
    Channel = Channel


class Connection(kombu.Connection):  # type: ignore[misc]
    """To Redis with the transport above; to any other broker as Kombu connects."""

    def get_transport_cls(self) -> Any:
        return Transport if self.transport_cls in {"redis", "rediss"} else super().get_transport_cls()
