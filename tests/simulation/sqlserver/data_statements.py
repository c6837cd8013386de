"""The statements over change rows and source rows: the probe for news, pages, snapshot chunks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.simulation.sqlserver.select import Select, Values, parse_select
from tests.simulation.sqlserver.statements import Answer, pattern
from tests.simulation.sqlserver.view import View, change_table_rows, source_rows
from tests.simulation.world import SimulationError

_BRANCH: Final = re.compile(
    r"SELECT N'(?P<name>[^']*)' AS capture_instance WHERE EXISTS \(SELECT \* FROM"
    r" cdc\.\[(?P<table>[^\]]*)\] WHERE \[__\$start_lsn\] >= (?P<low>\?|@\w+) AND"
    r" \[__\$start_lsn\] <= (?P<high>\?|@\w+)\)"
)


@pattern(r"SELECT N'[^']*' AS capture_instance WHERE EXISTS .*")
def _instances_with_news(view: View, parameters: Sequence[Any], match: re.Match[str]) -> Answer:
    """The probe: a branch for each instance."""
    found: Answer = []
    named: Mapping[str, Any] = getattr(parameters, "named", {})
    left = list(parameters)
    for branch in match[0].split(" UNION ALL "):
        parts = _BRANCH.fullmatch(branch)
        if parts is None:
            raise SimulationError(f"the model does not know the branch: {branch}")
        low, high = (
            left.pop(0) if bound == "?" else named[bound] for bound in (parts["low"], parts["high"])
        )
        instance = view.instance_of_table(parts["table"])
        if any(low <= row.start_lsn <= high for row in instance.rows):
            found.append((parts["name"],))
    return found


@pattern(r"SELECT (?:TOP \([^)]*\) )?.* FROM cdc\.\[[^\]]*_CT\].*")
def _page(view: View, parameters: Sequence[Any], match: re.Match[str]) -> Answer:
    """A page of change rows."""
    select = parse_select(match[0])
    instance = view.instance_of_table(select.source)
    return select.run(change_table_rows(instance), bound(select, parameters))


@pattern(r"SELECT (?:TOP \([^)]*\) )?.* FROM \[dbo\]\.\[[^\]]*\].*")
def _rows(view: View, parameters: Sequence[Any], match: re.Match[str]) -> Answer:
    """Rows of a source table, at one moment."""
    select = parse_select(match[0])
    table = view.table_named(select.source)
    return select.run(_seen(table, select), bound(select, parameters))


def _seen(table: Any, select: Select) -> list[Values]:
    return list(source_rows(table))


def bound(select: Select, parameters: Sequence[Any]) -> dict[str, Any]:
    """The parameters by the names that the evaluator gives them.

    Raises:
        SimulationError: their number is wrong.
    """
    if select.parameters != len(parameters):
        raise SimulationError(f"{select.parameters} parameters wanted, {len(parameters)} given")
    values = {f"?{number}": value for number, value in enumerate(parameters)}
    return {**values, **getattr(parameters, "named", {})}
