"""The statements over change rows and source rows: the probe for news, pages, snapshot chunks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.simulation.sqlserver.select import Select, SqlError, parse_select
from tests.simulation.sqlserver.statements import Answer, pattern
from tests.simulation.sqlserver.view import View, change_table_rows
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


@pattern(r"SELECT (?!MAX\()(?:TOP \([^)]*\) )?.* FROM cdc\.\[[^\]]*_CT\].*")
def _page(view: View, parameters: Sequence[Any], match: re.Match[str]) -> Answer:
    """A page of change rows."""
    select = parse_select(match[0])
    instance = view.instance_of_table(select.source)
    rows = change_table_rows(instance)
    return select.run(rows, bound(select, parameters), view.shown(instance))


_FUNCTION: Final = re.compile(
    r"cdc\.\[fn_cdc_get_all_changes_(?P<name>[^\]]*)\]\((?P<span>[^)]*), N'all(?: update old)?'\)"
)


@pattern(r"SELECT TOP \(\?\) .* FROM cdc\.\[fn_cdc_get_all_changes_[^\]]*\]\(\?, \?, .*")
def _page_of_function(view: View, parameters: Sequence[Any], match: re.Match[str]) -> Answer:
    """A page of what a query function gives: no command id, and a range that it accepts."""
    function = _FUNCTION.search(match[0])
    if function is None:
        raise SimulationError(f"the model does not know the function: {match[0]}")
    limit, first, last, *rest = parameters
    rows = _all_changes(view, function["name"], first, last)
    start, end = function.span()
    select = parse_select(f"{match[0][:start]}cdc.[{function['name']}_CT]{match[0][end:]}")
    instance = view.instance_of_table(function["name"])
    return select.run(rows, bound(select, [limit, *rest]), view.shown(instance))


@pattern(r"SET @\w+ = .*|IF @\w+ <=? @\w+ .*")
def _probe_by_function(view: View, parameters: Sequence[Any], match: re.Match[str]) -> Answer:
    """The statements of the probe through query functions; they change variables of the batch."""
    named: dict[str, Any] = getattr(parameters, "named", {})
    text = match[0]
    if found := re.fullmatch(r"SET (@\w+) = sys\.fn_cdc_get_min_lsn\(N'([^']*)'\)", text):
        named[found[1]] = view.min_lsn(found[2])
        return []
    if found := re.fullmatch(r"IF (@\w+) < (@\w+) SET (@\w+) = (@\w+)", text):
        if named[found[1]] < named[found[2]]:
            named[found[3]] = named[found[4]]
        return []
    found = re.fullmatch(
        r"IF (@\w+) <= (@\w+) SELECT TOP \(1\) N'([^']*)' AS capture_instance FROM (.*)", text
    )
    function = None if found is None else _FUNCTION.fullmatch(found[4])
    if found is None or function is None:
        raise SimulationError(f"the model does not know the statement: {text}")
    if named[found[1]] > named[found[2]]:
        return []
    first, last = (named[variable] for variable in function["span"].split(", "))
    return [(found[3],)] if _all_changes(view, function["name"], first, last) else []


def _all_changes(view: View, name: str, first: bytes, last: bytes) -> list[dict[str, Any]]:
    """Rows of cdc.fn_cdc_get_all_changes_<name>.

    Raises:
        SqlError: 313 for a range that is not inside the validity interval; see instance_of_table.
    """
    instance = view.instance_of_table(name)
    low, high = view.min_lsn(name), view.max_lsn()
    if low == bytes(10) or high is None or not low <= first <= last <= high:
        raise SqlError(313, "An insufficient number of arguments were supplied.")
    rows = change_table_rows(instance)
    for row in rows:
        row.pop("__$command_id", None)
    return [row for row in rows if first <= row["__$start_lsn"] <= last]


@pattern(r"SELECT (?:(?:, )?(?:CAST\(\? AS \w+\)|NULL))+")
def _converted_key(_: View, parameters: Sequence[Any], match: re.Match[str]) -> Answer:
    """Texts in the types of a key's columns; a repair reads them for keys without a row."""
    select = parse_select(f"{match[0]} FROM nothing")
    return select.run([{}], bound(select, parameters))


@pattern(r"SELECT (?:TOP \([^)]*\) )?.* FROM \[dbo\]\.\[[^\]]*\].*")
def _rows(view: View, parameters: Sequence[Any], match: re.Match[str]) -> Answer:
    """Rows of a source table, at one moment."""
    select = parse_select(match[0])
    table = view.table_named(select.source)
    return select.run(view.visible_rows(table), bound(select, parameters), view.shown(table))


def bound(select: Select, parameters: Sequence[Any]) -> dict[str, Any]:
    """The parameters by the names that the evaluator gives them.

    Raises:
        SimulationError: their number is wrong.
    """
    if select.parameters != len(parameters):
        raise SimulationError(f"{select.parameters} parameters wanted, {len(parameters)} given")
    values = {f"?{number}": value for number, value in enumerate(parameters)}
    return {**values, **getattr(parameters, "named", {})}
