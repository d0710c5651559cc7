import socket

from service.backend import listen


def test_answers_are_not_held_back() -> None:
    """Without TCP_NODELAY a small answer waits for the client's delayed acknowledgement, 40 ms."""
    with listen("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname()):
        connection, _ = bound.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
