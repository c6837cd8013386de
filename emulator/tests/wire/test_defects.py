"""A defect of the server itself reaches the client as error 50999, and only its request fails."""

import logging

import pytest

from emulator.tests.wire.test_limits import LOGIN
from emulator.tests.wire.test_server import Client
from tailrace_emulator.messages.errors import INTERNAL, SqlError
from tailrace_emulator.serving.batch import BatchRunner
from tailrace_emulator.wire.packets import PacketType
from tailrace_emulator.wire.requests import ProcedureId, RpcCall, RpcParameter, RpcRequest
from tailrace_emulator.wire.tokens import Done, DoneStatus, Row
from tailrace_emulator.wire.types import DEFAULT_COLLATION_BYTES, DataType, TypeInfo

NVARCHAR = TypeInfo(DataType.NVARCHAR, 8000, collation=DEFAULT_COLLATION_BYTES)


@pytest.fixture
def session(serve_in_process):
    client = Client(serve_in_process().port)
    client.log_in(LOGIN)
    yield client
    client.socket.close()


@pytest.fixture
def broken_runner(monkeypatch):
    run = BatchRunner.run

    def broken(self, sql, parameters=()):
        yield from run(self, "SELECT 7")
        if "defect" in sql:
            raise ZeroDivisionError("secret details")
        raise SqlError(50_001, "the last", severity=20)

    monkeypatch.setattr(BatchRunner, "run", broken)
    return monkeypatch


def test_in_a_batch(session, broken_runner, caplog):
    with caplog.at_level(logging.ERROR):
        tokens = session.batch("a defect")
    assert Row((7,)) in tokens
    error, done = tokens[-2:]
    assert error.number == INTERNAL
    assert "secret" not in error.text
    assert done == Done(status=DoneStatus.ERROR)
    assert "secret details" in caplog.text
    broken_runner.undo()
    assert Row((1,)) in session.batch("SELECT 1")


def test_in_one_call_of_several(session, broken_runner):
    call = RpcCall(ProcedureId.EXECUTESQL, (RpcParameter("", NVARCHAR, "a defect"),))
    session.send(PacketType.RPC, RpcRequest((call, call)).encode())
    tokens = session.tokens()
    assert [t.number for t in tokens if hasattr(t, "severity")] == [INTERNAL, INTERNAL]
    assert tokens[-1].status == DoneStatus.ERROR


def test_an_error_of_severity_20_ends_the_connection(session, broken_runner):
    tokens = session.batch("the end")
    assert tokens[-2].severity == 20
    assert session.receive() is None
