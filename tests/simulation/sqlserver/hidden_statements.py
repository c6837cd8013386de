"""The statements about what the server hides from the login: masks and security policies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from tests.simulation.sqlserver.select import SqlError
from tests.simulation.sqlserver.statements import Answer, answer, pattern
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


_UNMASKED: Final = r"CASE WHEN NOT EXISTS \(SELECT \* FROM cdc\.change_tables ct JOIN sys\.masked_"


@pattern(rf"SELECT {_UNMASKED}.* THEN sys\.fn_cdc_get_min_lsn\(\?\) END")
def _unmasked_low_watermark(view: View, parameters: Sequence[Any], match: re.Match[str]) -> Answer:
    name = parameters[0]
    return [(None if _reads_masks(view, name) else view.min_lsn(name),)]


_NEWEST: Final = r"SELECT ISNULL\((?P<newest>.*), CAST\(0 AS binary\(10\)\)\)"


@pattern(rf"{_NEWEST} \+ {_UNMASKED}.* THEN 0x00 ELSE 0x01 END")
def _newest_and_masks(view: View, parameters: Sequence[Any], match: re.Match[str]) -> Answer:
    ((newest,),) = answer(view, f"SELECT {match['newest']}", ())
    return [((newest or bytes(10)) + bytes([_reads_masks(view, parameters[0])]),)]


def _reads_masks(view: View, name: str) -> bool:
    if not view.features.has_masks:
        raise SqlError(208, "Invalid object name 'sys.masked_columns'.")
    instance = view.database.instances.get(name)
    return instance is not None and bool(view.masked(instance))
