"""The wanted port or the next free one; inner ports from the kernel."""

import socket

from broker_project.supervisor.ports import HOST, free_ports, listen_at_or_after


def test_a_taken_port_gives_the_next_free_one() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with listen_at_or_after(port) as listener:
            assert port < listener.getsockname()[1] <= port + 100


def test_two_starts_at_once_cannot_choose_the_same_port() -> None:
    (wanted,) = free_ports(1)
    with listen_at_or_after(wanted) as first, listen_at_or_after(wanted) as second:
        assert first.getsockname()[1] == wanted
        assert second.getsockname()[1] > wanted


def test_inner_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20


def test_connections_to_the_handed_socket_do_not_wait_for_more_to_send() -> None:
    (wanted,) = free_ports(1)
    with listen_at_or_after(wanted) as listener, socket.create_connection((HOST, wanted)):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
