"""Masks, row filters and encryption are noticed before a wrong value is published."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
import structlog

from tailrace_publisher.change.column_rules import ColumnRules
from tailrace_publisher.change.instance import CapturedColumn
from tailrace_publisher.daemon.checks.protected_rows import hidden_problems
from tailrace_publisher.errors import SourceError
from tailrace_publisher.options.columns import ColumnsConfig
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.hidden_data import NOTHING_HIDDEN, HiddenData, hidden_data
from tailrace_schemas.events.column_types import ColumnType
from tests.least_options import LEAST
from tests.unit.publisher.source.test_pages import INSTANCE

SALARY = CapturedColumn(
    2, "salary", 2, ColumnType("money"), nullable=True, is_computed=False, in_source=True
)
EMPLOYEES = replace(INSTANCE, columns=(*INSTANCE.columns, SALARY))
SOURCE, CHANGES = EMPLOYEES.source_object_id, EMPLOYEES.object_id


def config(**options: Any) -> PublisherConfig:
    return PublisherConfig.load({**LEAST, **options})


def server(*rows: tuple[int, str, str], error: int = 0) -> Connection:
    """Answers the one question; or refuses it."""

    class Server:
        def query(self, sql: str) -> list[Any]:
            assert "sys.masked_columns" in sql
            if error:
                raise SourceError("refused", number=error)
            return [(0, "user", "reader]s"), *rows]

    return cast(Connection, Server())


def problems(hidden: HiddenData, **options: Any) -> list[tuple[str, bool]]:
    rules = ColumnRules(ColumnsConfig(**options.pop("columns", {})))
    found = hidden_problems(config(**options), hidden, [EMPLOYEES], rules)
    assert {problem.table for problem in found} <= {EMPLOYEES.table}
    return [(problem.text, problem.is_of_snapshot) for problem in found]


def test_masks_of_a_source_table_concern_its_snapshot_only():
    hidden = hidden_data(server((SOURCE, "masked", "salary"), (99, "masked", "id")))
    ((text, is_of_snapshot),) = problems(hidden)

    assert is_of_snapshot
    assert "table db.dbo.t, columns salary: user reader]s reads masks" in text
    assert text.endswith("Fix: GRANT UNMASK TO [reader]]s] in the database")


@pytest.mark.parametrize("mode", ["initial", "no_data"])
def test_masks_of_a_change_table_concern_every_mode(mode: str):
    hidden = hidden_data(server((CHANGES, "masked", "salary")))
    ((text, is_of_snapshot),) = problems(hidden, snapshot={"mode": mode})

    assert not is_of_snapshot
    assert f"in change table cdc.{EMPLOYEES.name}_CT" in text
    assert "no_data" not in text


def test_rows_that_are_not_read_first_are_logged():
    hidden = hidden_data(server((SOURCE, "masked", "salary")))
    with structlog.testing.capture_logs() as logs:
        assert problems(hidden, snapshot={"mode": "no_data"}) == []

    assert [told["event"] for told in logs] == ["snapshot_would_be_wrong"]


def test_columns_that_are_not_published_may_be_masked_but_not_those_that_the_options_mask():
    """The server masks any expression over a masked column, by its own default."""
    hidden = hidden_data(server((CHANGES, "masked", "salary"), (SOURCE, "masked", "salary")))

    assert problems(hidden, columns={"exclude": [r"dbo\.t\.salary"]}) == []
    assert problems(hidden, columns={"mask": {r"dbo\.t\.salary": "*"}})


def test_encrypted_columns_are_refused_by_name_where_they_are_read():
    hidden = hidden_data(server((SOURCE, "encrypted", "salary")))
    ((text, is_of_snapshot),) = problems(hidden)

    assert not is_of_snapshot
    assert "columns salary" in text
    assert "@captured_column_list" in text
    assert problems(hidden, columns={"mask": {r"dbo\.t\.salary": "*"}}) == []


def test_policies_are_refused_unless_the_options_exempt_the_login():
    policies = server((SOURCE, "filtered", "rls.Own_Rows"), (SOURCE, "filtered", "rls.Region"))
    ((text, is_of_snapshot),) = problems(hidden_data(policies, ["RLS.own_rows"]))

    assert is_of_snapshot
    assert "security policy rls.Region may hide rows from user reader]s" in text
    assert problems(hidden_data(policies, ["RLS.own_rows", "rls.region"])) == []


def test_a_login_that_may_not_see_policies_is_told():
    with structlog.testing.capture_logs() as logs:
        assert problems(hidden_data(server((0, "blind", "")))) == []

    assert [told["event"] for told in logs] == ["security_policies_unseen"]


def test_a_server_without_the_features_hides_nothing():
    for number in (207, 208):
        assert hidden_data(server(error=number)) == NOTHING_HIDDEN
    with pytest.raises(SourceError):
        hidden_data(server(error=229))
