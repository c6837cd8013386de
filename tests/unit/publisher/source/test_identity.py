"""What a server shows of a database's identity, and what is told where it shows nothing."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
import structlog

from tailrace_publisher.errors import PermissionMissing, SourceError, SourceUnavailable
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.log.identity import (
    Continuity,
    DatabaseIdentity,
    continuity,
    visible_identity,
)
from tailrace_schemas.position.lsn import Lsn

NOTHING = DatabaseIdentity(None, None)
COPY, FORK, FAMILY = (UUID(int=number) for number in (1, 2, 3))
LSN = Lsn(1, 2, 3)


class Answering(OdbcConnection):
    """A connection with answers given beforehand."""

    def __init__(self, *sets: list[Any], error: SourceError | None = None) -> None:
        self._sets, self._error = list(sets), error

    def query_sets(self, sql: str, *parameters: Any) -> list[list[Any]]:  # noqa: ARG002
        if self._error is not None:
            raise self._error
        return self._sets


def test_the_identity_is_what_the_view_has():
    row = (str(COPY).upper(), FORK, FAMILY, Decimal(1_0000000002_00003))

    assert visible_identity(Answering([row])) == DatabaseIdentity(
        str(COPY), str(FORK), str(FAMILY), LSN
    )


@pytest.mark.parametrize(
    ("connection", "level", "fix"),
    [
        # Azure SQL Database has no such view.
        (Answering(error=SourceError("no such object", number=208)), "info", ""),
        # VIEW ANY DATABASE was denied.
        (Answering([]), "warning", "VIEW ANY DATABASE"),
        (Answering(error=PermissionMissing("no", number=297)), "warning", "VIEW ANY DATABASE"),
        (Answering(error=PermissionMissing("no", number=300)), "warning", "VIEW SERVER STATE"),
    ],
    ids=["no view", "no row", "297", "300"],
)
def test_where_nothing_is_shown_it_is_told_and_goes_on(connection: Answering, level: str, fix: str):
    with structlog.testing.capture_logs() as told:
        assert visible_identity(connection) == NOTHING

    (entry,) = told
    assert (entry["event"], entry["log_level"]) == ("database_identity_not_visible", level)
    assert fix in entry.get("fix", "")


@pytest.mark.parametrize(
    "error", [SourceUnavailable("away", number=64), SourceError("other", number=207)]
)
def test_another_error_is_an_error(error: SourceError):
    with pytest.raises(type(error)) as raised:
        visible_identity(Answering(error=error))

    assert raised.value is error


@pytest.mark.parametrize(
    ("first", "watermark", "kept_from"),
    [
        (Lsn(1, 0, 0), Lsn(1, 1, 0), Lsn(1, 1, 0)),
        (Lsn(1, 1, 0), Lsn(1, 0, 0), Lsn(1, 1, 0)),
        (Lsn(1, 1, 0), None, Lsn(1, 1, 0)),
        (None, Lsn(1, 0, 0), None),
    ],
)
def test_entries_are_kept_from_the_lowest_watermark_on(
    first: Lsn | None, watermark: Lsn | None, kept_from: Lsn | None
):
    """Cleanup raises the watermarks first: an entry below them may be gone, with some before it."""
    raw = [[(None if lsn is None else lsn.to_bytes(),)] for lsn in (first, watermark)]

    assert continuity(Answering([], *raw), LSN) == Continuity(None, kept_from)


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (DatabaseIdentity("a", "f", "family", LSN), True),
        (DatabaseIdentity(None, None), True),
        (DatabaseIdentity("b", "f"), False),
        (DatabaseIdentity("a", "g"), False),
    ],
    ids=["a part that 0.1 did not store", "nothing visible", "another copy", "another line"],
)
def test_an_unknown_part_is_no_move(other: DatabaseIdentity, is_same: bool):
    assert DatabaseIdentity("a", "f").is_same_copy(other) is is_same
