"""Where the processes listen: on the operator's port or the next free one, and inside on ports the kernel chooses."""

import socket
from contextlib import ExitStack

from broker_project.supervisor.errors import StartFailed

HOST = "127.0.0.1"
PORTS_TRIED = 100
BACKLOG = 2048


def listen_at_or_after(wanted: int) -> socket.socket:
    """A listening socket on `wanted` or on the next free port.

    The supervisor keeps it open and hands it to the web process: two homes that start at once cannot meet on one port,
    and while a killed web process comes back its callers wait instead of being refused.
    """
    for port in range(wanted, min(wanted + PORTS_TRIED, 65536)):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it. uvicorn takes a handed socket for a Unix one and does not set it: 40 ms an answer.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            listener.bind((HOST, port))
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            continue
        return listener
    raise StartFailed(f"no free port among the {PORTS_TRIED} from {wanted} on; choose another with --port")


def free_ports(count: int) -> list[int]:
    """As many different free ports, chosen by the kernel."""
    with ExitStack() as held:
        # All are held until the last is known, so that none is given twice.
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]
