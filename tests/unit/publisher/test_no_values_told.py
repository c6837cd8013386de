"""A marked value of a row is looked for in everything that is logged or kept because of it.

``tests/pipeline/operate/test_secrets.py`` does the same with secrets. docs/security.md lists where
values are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from tailrace_publisher.daemon.orders.table_orders import TableOrders
from tailrace_publisher.daemon.tables.stopped import StoppedTables, reason_of
from tailrace_publisher.daemon.tables.table_state import TableState
from tailrace_publisher.encode.around_bad_events import encode_around
from tailrace_publisher.encode.columns.column_forms import Declined
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.errors import EncodeError, SourceError, TableFailed
from tailrace_publisher.errors.one_table import of_one_table
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.snapshots import SnapshotConfig
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.snapshot.progress import SnapshotProgress, SnapshotState
from tailrace_publisher.snapshot.snapshots import _read_of
from tailrace_publisher.source.blocks.block_faults import BlockFaults
from tailrace_publisher.source.catalog.table_instances import TableInstances
from tailrace_publisher.source.connection.server_errors import source_error, without_literals
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

MARK = "Erika"
TABLE = TableName("crm", "dbo", "people")
COMMIT = Lsn(1, 1, 1).to_bytes()
ROW = (COMMIT, 1, Lsn(1, 1, 2).to_bytes(), 2, b"\x03", 1, f"{MARK} \ud800")
SOURCE = SourceConfig(host="server", database="crm", user="tailrace", password="hidden")


def encoder() -> EnvelopeEncoder:
    columns = (
        SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=1),
        SchemaColumn(2, "name", ColumnType("nvarchar", length=50)),
    )
    schema = TableSchema(TABLE, "dbo_people", Lsn(1, 1, 1), columns)
    return EnvelopeEncoder("crm", schema, "t", 1, 2)


def a_value_that_does_not_fit() -> Exception:
    with pytest.raises(EncodeError) as refused:
        encoder().encode([ROW], {COMMIT: 0})
    return refused.value


def a_fault_over_a_value() -> Exception:
    with pytest.raises(TableFailed) as failed, of_one_table(TABLE, "reading it"):
        int(MARK)
    return failed.value


def a_fault_of_the_block_path() -> Exception:
    with pytest.raises(Declined) as declined, BlockFaults().declined("dbo_people"):
        int(MARK)
    return declined.value


def a_snapshot_that_cannot_be_read() -> Exception:
    progress = SnapshotProgress(SnapshotState.RUNNING, resume_key=f'["{MARK}"]', rows=7)
    table: Any = SimpleNamespace(progress=progress, name=TABLE)
    with pytest.raises(TableFailed) as failed, _read_of(table):
        raise KeyError(MARK)
    return failed.value


def a_conversion_that_the_server_refuses() -> Exception:
    text = f"Conversion failed when converting the nvarchar value '{MARK}' to data type int."
    return source_error(SOURCE, "22018", [245], text, is_login=False)


@pytest.mark.parametrize(
    "fail",
    [
        a_value_that_does_not_fit,
        a_fault_over_a_value,
        a_fault_of_the_block_path,
        a_snapshot_that_cannot_be_read,
        a_conversion_that_the_server_refuses,
    ],
)
def test_what_stops_a_table_tells_no_value(fail: Callable[[], Exception]) -> None:
    metrics = Metrics()
    with capture_logs() as logs:
        error = fail()
        cause = error.cause if isinstance(error, TableFailed) else error
        stopped = StoppedTables(SnapshotConfig(), metrics)
        stopped.add(TABLE, cause)
        stopped.report(TABLE)
    failures = str(metrics.failures.newest_first())
    for told in (str(error), reason_of(cause), str(logs), failures):
        assert told
        assert MARK not in told


def test_a_dead_letter_has_its_value_in_the_record_alone() -> None:
    (letter,) = encode_around(encoder(), [ROW], {COMMIT: 0}).letters.values()
    assert MARK not in str(letter.headers())
    assert MARK.encode() in (letter.value() or b"")


def test_a_condition_is_told_by_its_length_and_hash() -> None:
    record = SimpleNamespace(state=TableState.FOLLOWED)
    orders = TableOrders(
        cast(Any, SimpleNamespace(rows_refusal=lambda *_: None)),
        cast(Any, SimpleNamespace(of=lambda _: record)),
        cast(Any, SimpleNamespace(query=refuse)),
    )
    instance = SimpleNamespace(identity=("id",), key=("id",), source_table=TABLE)
    table: Any = SimpleNamespace(name=TABLE, instances=TableInstances([instance]))
    for where in (f"name = '{MARK}'", f"name = '{MARK}"):
        refusal = orders.read_part(table, where)
        assert refusal is not None
        assert f"{len(where)} characters" in refusal
        assert MARK not in refusal


def refuse(*_: object) -> None:
    raise SourceError(f"Incorrect syntax near '{MARK}'.", number=102)


def test_names_that_a_refusal_quotes_stay() -> None:
    assert "'nosuch'" in without_literals(SourceError("Invalid column name 'nosuch'.", number=207))
