"""The statements about what the server hides from the login: masks and security policies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tests.simulation.sqlserver.select import SqlError
from tests.simulation.sqlserver.statements import Answer, pattern
from tests.simulation.sqlserver.view import View


@pattern(r"SELECT h\.object_id, h\.kind, h\.name FROM \(SELECT m\.object_id, N'masked' .*")
def _hidden(view: View, _: Sequence[Any], match: re.Match[str]) -> Answer:
    """See: sys.masked_columns; sys.security_predicates; HAS_PERMS_BY_NAME."""
    if not view.features.has_masks:
        raise SqlError(208, "Invalid object name 'sys.masked_columns'.")
    captured = {instance.source for instance in view.instances()}
    tables = [table for table in view.tables() if table.object_id in captured]
    return [
        (0, "user", "tailrace"),
        (0, "blind", ""),
        *(
            (of.object_id, "masked", column.name)
            for of in (*tables, *view.instances())
            for column in view.masked(of)
        ),
        *(
            (table.object_id, "filtered", "dbo.own_rows")
            for table in tables
            if table.object_id in view.features.filtered
        ),
    ]


@pattern(r"SELECT CASE WHEN NOT EXISTS \(SELECT \* FROM cdc\.change_tables ct JOIN sys\.masked_.*")
def _unmasked_low_watermark(view: View, parameters: Sequence[Any], match: re.Match[str]) -> Answer:
    if not view.features.has_masks:
        raise SqlError(208, "Invalid object name 'sys.masked_columns'.")
    name = parameters[0]
    instance = view.database.instances.get(name)
    is_masked = instance is not None and bool(view.masked(instance))
    return [(None if is_masked else view.min_lsn(name),)]
