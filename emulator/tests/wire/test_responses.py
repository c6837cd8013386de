"""Events to tokens: where each DONE goes and what it says."""

import pytest

from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.serving.output_values import SentParameters
from tailrace_emulator.serving.responses import CHUNK_ROWS, FLUSH_BYTES, ColumnSets, Response
from tailrace_emulator.values import results
from tailrace_emulator.values.results import ColumnMeta
from tailrace_emulator.values.types import BIGINT, INT, SqlType
from tailrace_emulator.wire.token_reader import read_tokens
from tailrace_emulator.wire.tokens import (
    ColMetadata,
    Command,
    Done,
    DoneStatus,
    EnvChange,
    EnvChangeType,
    ReturnStatus,
    ReturnValue,
    Row,
    ServerMessage,
    TokenType,
    transaction_change,
)

MORE, ERROR, COUNT = DoneStatus.MORE, DoneStatus.ERROR, DoneStatus.COUNT
ONE_COLUMN = (ColumnMeta("a", INT),)
IN_PROC, PROC = TokenType.DONE_IN_PROC, TokenType.DONE_PROC


def batch(*events):
    sent = []
    response = Response(sent.append, ColumnSets(), "S")
    for event in events:
        if isinstance(event, SqlError):
            response.error(event)
        else:
            response.handle(event)
    response.finish()
    return list(read_tokens(b"".join(sent)))


def calls(*groups):
    sent = []
    response = Response(sent.append, ColumnSets(), "S")
    for events in groups:
        response.begin_call()
        for event in events:
            if isinstance(event, SqlError):
                response.error(event)
            else:
                response.handle(event)
        response.end_call(SentParameters((), 4))
    response.finish()
    return list(read_tokens(b"".join(sent)))


def test_a_batch_without_events_still_ends():
    assert batch() == [Done()]


def test_only_the_last_done_is_final():
    assert batch(
        results.StatementDone("insert", 2),
        results.StatementDone("other"),
        results.StatementDone("update", 0),
    ) == [
        Done(status=MORE | COUNT, command=Command.INSERT, count=2),
        Done(status=MORE),
        Done(status=COUNT, command=Command.UPDATE),
    ]


def test_a_result_set():
    tokens = batch(
        results.ResultSet(ONE_COLUMN),
        results.Rows([(1,), (None,)]),
        results.Rows([(3,)]),
        results.StatementDone("select", 3),
    )
    assert isinstance(tokens[0], ColMetadata)
    assert tokens[1:] == [
        Row((1,)),
        Row((None,)),
        Row((3,)),
        Done(status=COUNT, command=Command.SELECT, count=3),
    ]


def test_more_rows_than_a_chunk_keep_their_order():
    rows = [(n,) for n in range(2 * CHUNK_ROWS + 7)]
    tokens = batch(
        results.ResultSet((ColumnMeta("a", BIGINT),)),
        results.Rows(rows),
        results.StatementDone("select", len(rows)),
    )
    assert [token.values for token in tokens[1:-1]] == rows


def test_rows_are_sent_before_the_end():
    sent = []
    response = Response(sent.append, ColumnSets(), "S")
    response.handle(results.ResultSet(ONE_COLUMN))
    response.handle(results.Rows([(n,) for n in range(FLUSH_BYTES // 6 + 1)]))
    assert sent


def test_an_error_inside_a_batch_marks_its_statement_and_the_batch_goes_on():
    assert batch(
        results.ErrorMessage(2627, "dup", 14, 1, "", 1),
        results.Message(3621, "The statement has been terminated."),
        results.StatementDone("insert"),
        results.StatementDone("insert", 1),
    ) == [
        ServerMessage(2627, 1, 14, "dup", "S", "", 1),
        ServerMessage(3621, 1, 0, "The statement has been terminated.", "S", "", 1),
        Done(status=MORE | ERROR, command=Command.INSERT),
        Done(status=COUNT, command=Command.INSERT, count=1),
    ]


def test_an_error_that_ends_a_batch():
    assert batch(results.StatementDone("insert", 1), SqlError(208, "no", line=2)) == [
        Done(status=MORE | COUNT, command=Command.INSERT, count=1),
        ServerMessage(208, 1, 16, "no", "S", "", 2),
        Done(status=ERROR),
    ]


def test_a_procedure_inside_a_batch():
    assert batch(results.StatementDone("insert", 1), results.ReturnStatus(3)) == [
        Done(status=MORE | COUNT, command=Command.INSERT, count=1),
        ReturnStatus(3),
        Done(PROC, command=Command.EXECUTE),
    ]


def test_a_call_ends_with_status_values_and_done_proc():
    tokens = calls(
        [
            results.StatementDone("insert", 1),
            results.ReturnValue("@out", INT, 9),
            results.ReturnStatus(2),
        ]
    )
    assert tokens == [
        Done(IN_PROC, MORE | COUNT, Command.INSERT, 1),
        ReturnStatus(2),
        ReturnValue(4, "@out", tokens[2].type, 9),
        Done(PROC, command=Command.EXECUTE),
    ]


def test_several_calls_in_one_message():
    assert calls(
        [results.StatementDone("insert", 1)],
        [SqlError(2627, "dup", 14)],
        [results.StatementDone("insert", 1)],
    ) == [
        Done(IN_PROC, MORE | COUNT, Command.INSERT, 1),
        ReturnStatus(0),
        Done(PROC, MORE, Command.EXECUTE),
        ServerMessage(2627, 1, 14, "dup", "S", "", 1),
        ReturnStatus(0),
        Done(PROC, MORE | ERROR, Command.EXECUTE),
        Done(IN_PROC, MORE | COUNT, Command.INSERT, 1),
        ReturnStatus(0),
        Done(PROC, command=Command.EXECUTE),
    ]


def test_changes_of_database_and_transaction():
    assert batch(
        results.DatabaseChanged("master", "shop"),
        results.TransactionChanged("began", 5),
        results.TransactionChanged("committed", 5),
        results.TransactionChanged("rolled_back", 6),
    ) == [
        EnvChange(EnvChangeType.DATABASE, "shop", "master"),
        ServerMessage(5701, 2, 0, "Changed database context to 'shop'.", "S", "", 1),
        transaction_change(EnvChangeType.BEGIN_TRANSACTION, 5),
        transaction_change(EnvChangeType.COMMIT_TRANSACTION, 5),
        transaction_change(EnvChangeType.ROLLBACK_TRANSACTION, 6),
        Done(),
    ]


def test_a_column_of_a_type_that_cannot_be_sent_is_refused_by_name():
    with pytest.raises(SqlError, match="cursor"):
        batch(results.ResultSet((ColumnMeta("v", SqlType("cursor")),)))
