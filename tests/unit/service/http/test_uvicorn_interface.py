"""What Cyclops uses of uvicorn beyond its documented interface is there, and is used in one module."""

import ast
import asyncio
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from unittest.mock import create_autospec

import h11
import pytest
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

import service
from service.http.uvicorn_protocol import TimeLimitedProtocol, TimeLimitedServer

HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"


async def served(_scope: object, receive: Callable[[], Awaitable[dict]], _send: object) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@pytest.mark.parametrize(
    ("base", "ours", "names"),
    [
        (H11Protocol, TimeLimitedProtocol, ["data_received", "resume_writing", "send_400_response", "_should_upgrade"]),
        (Server, TimeLimitedServer, ["on_tick", "shutdown"]),
    ],
)
def test_overridden_methods_are_those_of_uvicorn(base: type, ours: type, names: list[str]) -> None:
    for name in names:
        assert name in vars(ours)
        assert list(inspect.signature(getattr(base, name)).parameters) == list(
            inspect.signature(getattr(ours, name)).parameters
        )
    assert inspect.iscoroutinefunction(Server.on_tick)
    assert [*inspect.signature(H11Protocol).parameters] == ["config", "server_state", "app_state", "_loop"]


def test_a_connection_in_the_middle_of_a_body() -> None:
    async def receive() -> None:
        state, transport = ServerState(), create_autospec(asyncio.Transport, instance=True)
        transport.get_extra_info.return_value = None
        config = Config(served, log_config=None)
        config.load()
        connection = H11Protocol(config, state, {})
        assert connection.cycle is None
        connection.connection_made(transport)
        assert connection in state.connections
        connection.data_received(HEAD + b"ab")
        assert (connection.transport, connection.flow.read_paused) == (transport, False)
        assert isinstance(connection.conn, h11.Connection)
        assert connection.conn.their_state is h11.SEND_BODY
        cycle = connection.cycle
        assert (cycle.disconnected, cycle.response_complete, cycle.waiting_for_100_continue) == (False, False, False)
        assert isinstance(cycle.message_event, asyncio.Event)
        connection.connection_lost(None)
        await asyncio.gather(*state.tasks)

    asyncio.run(receive())


@pytest.mark.slow
def test_one_module_knows_uvicorn() -> None:
    found = set()
    for path in Path(str(service.__file__)).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if any(name.partition(".")[0] == "uvicorn" for name in names):
                found.add(path.name)
    assert found == {"uvicorn_protocol.py"}
