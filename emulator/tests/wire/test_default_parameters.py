"""A parameter that asks for the procedure's default gets it, whatever value was sent with it."""

import pytest

from emulator.tests.wire.test_server import Client
from tailrace_emulator.wire.login7 import Login7
from tailrace_emulator.wire.packets import PacketType
from tailrace_emulator.wire.requests import ParameterStatus, RpcCall, RpcParameter, RpcRequest
from tailrace_emulator.wire.tokens import ReturnValue, Row, ServerMessage
from tailrace_emulator.wire.types import DataType, TypeInfo

INT = TypeInfo(DataType.INTN, 4)
DEFAULT = ParameterStatus.DEFAULT_VALUE


@pytest.fixture(scope="module")
def client(module_emulator):
    connection = module_emulator.connect()
    connection.execute("CREATE DATABASE defaults")
    connection.execute("USE defaults")
    connection.execute(
        "CREATE PROCEDURE p @a int, @b int = 20, @c int = 300 OUTPUT AS"
        " SELECT @a + @b + ISNULL(@c, 4000); SET @c = ISNULL(@c, -1) + 1"
    )
    made = Client(module_emulator.port)
    made.log_in(Login7(user="sa", password=module_emulator.password, database="defaults"))
    yield made
    made.socket.close()


def called(client, *parameters):
    client.send(PacketType.RPC, RpcRequest((RpcCall("p", parameters),)).encode())
    tokens = client.tokens()
    return (
        [t.values[0] for t in tokens if isinstance(t, Row)],
        [t.value for t in tokens if isinstance(t, ReturnValue)],
        [t.number for t in tokens if isinstance(t, ServerMessage) and t.severity > 10],
    )


@pytest.mark.parametrize("value", [None, 9])
def test_an_input(client, value):
    given = RpcParameter("", INT, 1), RpcParameter("", INT, value, DEFAULT)
    assert called(client, *given) == ([321], [], [])


def test_an_output(client):
    status = DEFAULT | ParameterStatus.BY_REFERENCE
    given = RpcParameter("@a", INT, 1), RpcParameter("@c", INT, None, status)
    assert called(client, *given) == ([321], [301], [])


def test_null_is_not_the_default(client):
    given = (
        RpcParameter("@a", INT, 1),
        RpcParameter("@c", INT, None, ParameterStatus.BY_REFERENCE),
    )
    assert called(client, *given) == ([4021], [0], [])


def test_a_parameter_without_a_default(client):
    assert called(client, RpcParameter("@a", INT, 1, DEFAULT)) == ([], [], [201])
