"""Which errors are one table's, and which concern all of them."""

from __future__ import annotations

import pytest

from tailrace_publisher import errors
from tailrace_publisher.errors import (
    CaptureInstanceGone,
    EncodeError,
    KafkaUnavailable,
    PermissionMissing,
    PublisherError,
    SourceBusy,
    SourceError,
    SourceUnavailable,
    TableFailed,
    UnexpectedTableError,
)
from tailrace_publisher.errors.one_table import of_one_table
from tailrace_schemas.events.column_types import UnsupportedType
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.registry.client import RegistryError, RegistryRejected, RegistryUnavailable

TABLE = TableName("db", "dbo", "t")
DOING = "reading change rows of capture instance dbo_t"


@pytest.mark.parametrize(
    "error",
    [
        EncodeError("db.dbo.t", "c", "1", "no"),
        PermissionMissing("no"),
        UnsupportedType("no"),
        # A statement that the server or the driver refuses, and nobody knows why.
        SourceError("ODBC SQL type -151 is not yet supported", sqlstate="HY106"),
        RegistryRejected("topic-value", 403, "no", "let this user write the subject"),
    ],
)
def test_what_concerns_the_table_is_its_failure(error: Exception):
    with pytest.raises(TableFailed) as raised, of_one_table(TABLE, DOING):
        raise error

    assert raised.value.table == TABLE
    assert raised.value.cause is error


@pytest.mark.parametrize(
    "error",
    [
        SourceUnavailable("away"),
        SourceBusy("busy"),
        CaptureInstanceGone("dbo_t"),
        KafkaUnavailable("away"),
        RegistryUnavailable("http://registry", "away"),
    ],
)
def test_what_waiting_may_cure_stays_what_it_is(error: PublisherError | RegistryError):
    with pytest.raises(type(error)) as raised, of_one_table(TABLE, DOING):
        raise error

    assert raised.value is error
    assert error.retryable


def test_the_failure_of_another_table_stays_its_own():
    other = TableFailed(TableName("db", "dbo", "other"), SourceError("no"))

    with pytest.raises(TableFailed) as raised, of_one_table(TABLE, DOING):
        raise other

    assert raised.value is other


@pytest.mark.parametrize("error", [KeyError("x"), MemoryError(), OSError("x"), SystemError("x")])
def test_what_nobody_foresaw_names_the_table_the_step_and_what_to_do(error: Exception):
    with pytest.raises(TableFailed) as raised, of_one_table(TABLE, DOING):
        raise error

    cause = raised.value.cause
    assert isinstance(cause, UnexpectedTableError)
    assert cause.cause is error
    assert f"{DOING}: {type(error).__name__}." in str(cause), "without a text that may hold values"
    assert "tables.exclude" in str(cause)


def all_errors(base: type[Exception]) -> set[type[Exception]]:
    return {base}.union(*(all_errors(kind) for kind in base.__subclasses__()))


OF_ONE_TABLE = {
    "ColumnsRefused",
    "DeliveryError",
    "DeliveryRejected",
    "EncodeError",
    "OrderUnknown",
    "OutboxRefused",
    "PermissionMissing",
    "PositionExpired",
    "PublisherError",
    "RecordTooLarge",
    "RepairRefused",
    "RotationRefused",
    "RowsSwitched",
    "SchemaChanged",
    "SchemaRefused",
    "SourceError",
    "SnapshotTooLarge",
    "UnreadableKey",
    "StillStopped",
    "TableRenamed",
    "TopicCompacted",
    "TopicPartitionsChanged",
    "TopicRefused",
    "UnexpectedTableError",
    "ValuesConverted",
    "ValuesHidden",
}


def test_every_error_says_whom_it_concerns_and_whoever_waits_for_a_part_waits_for_all():
    kinds = {
        kind for kind in all_errors(PublisherError) if kind.__module__.startswith(errors.__name__)
    }

    assert {kind.__name__ for kind in kinds if kind.of_one_table} == OF_ONE_TABLE
    assert not [kind for kind in kinds if kind.of_one_table and kind.retryable]
    assert RegistryError.of_one_table
    assert not RegistryUnavailable.of_one_table


@pytest.mark.parametrize("end", [KeyboardInterrupt, GeneratorExit, SystemExit])
def test_who_ends_the_program_ends_it(end: type[BaseException]):
    with pytest.raises(end), of_one_table(TABLE, DOING):
        raise end
