"""What ``tailrace verify`` prints, and how it ends."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from tailrace.reading.terminal import shown
from tailrace.verify.row_differences import Kind, RowDifference
from tailrace.verify.table_result import TableResult
from tailrace.verify.verify import Verification

EQUAL: Final = 0
DIFFERENT: Final = 3
NOT_PROVEN: Final = 4
_VALUE_MAX: Final = 200
"""Characters of a value that the text shows; JSON has all of them."""


def exit_code(found: Verification) -> int:
    """Return 0 if all rows are equal, 3 if some differ, 4 if some could not be compared."""
    if found.differs:
        return DIFFERENT
    return EQUAL if found.is_proven else NOT_PROVEN


def verification_json(found: Verification) -> str:
    """Return one JSON object."""
    # asdict() counts the items of a Counter again.
    tables = [
        {k: v for k, v in asdict(replace(table, differing=Counter())).items() if k != "keys"}
        | {"is_proven": table.is_proven}
        | {"differing": {kind.value: table.differing[kind.value] for kind in Kind}}
        for table in found.tables
    ]
    told: dict[str, Any] = {"database": found.database, "lake": found.lake}
    told |= {"is_proven": found.is_proven, "differs": found.differs, "tables": tables}
    return json.dumps(told, indent=2)


def print_verification(found: Verification) -> None:
    """Print a table, then what differs."""
    console = Console(highlight=False)
    table = Table()
    table.add_column("table")
    for heading in ("source rows", "lake rows", *(kind.value for kind in Kind), "s"):
        table.add_column(heading, justify="right")
    table.add_column("LSN of the cut")
    for result in found.tables:
        figures = [result.source_rows, result.lake_rows, *(result.differing[k] for k in Kind)]
        texts = [f"{figure:,}" for figure in figures]
        if result.problem is not None:
            texts = ["-"] * len(texts)
        table.add_row(shown(result.table), *texts, f"{result.seconds:.1f}", result.lsn or "-")
    console.print(table)
    for line in verification_lines(found):
        click.echo(line)


def verification_lines(found: Verification) -> list[str]:
    """Return what differs, and what was not compared, in lines."""
    lines = result_lines(found.tables)
    if found.is_proven:
        rows = sum(result.source_rows for result in found.tables)
        lines.append(f"All {rows:,} rows of {len(found.tables)} tables are equal.")
    return lines


def result_lines(tables: Sequence[TableResult], *, with_examples: bool = True) -> list[str]:
    """Return what differs in some tables, and what was not compared, in lines."""
    lines: list[str] = []
    for result in tables:
        if with_examples:
            lines += (
                f"- {shown(result.table)}: {difference_text(found)}" for found in result.examples
            )
        lines += _lines(result)
    return lines


def _lines(result: TableResult) -> list[str]:
    name = shown(result.table)
    lines = []
    more = result.differing.total() - sum(found.rows for found in result.examples)
    if more:
        lines.append(f"- {name}: and {more:,} more rows")
    if result.is_repaired:
        lines.append(
            f"- {name}: {result.repaired:,} rows repaired: the publisher published them again, and"
            " they are equal"
        )
    if result.repair_problem is not None:
        lines.append(f"- {name}: not repaired: {shown(result.repair_problem)}")
    if result.not_examined:
        lines.append(f"- {name}: {result.not_examined:,} further rows differ or changed meanwhile")
    if result.unsettled:
        lines.append(
            f"- {name}: {result.unsettled:,} rows changed during each comparison or after the"
            " newest cut; they are not reported as different"
        )
    if result.problem is not None:
        lines.append(f"- {name}: not compared: {shown(result.problem)}")
    lines += [f"- {name}: {shown(note)}" for note in result.notes]
    return lines


def difference_text(found: RowDifference) -> str:
    """Return a differing row in one line."""
    key = ", ".join(f"{shown(name)} = {_value(text)}" for name, text in found.key.items())
    rows = f" ({found.rows:,} rows)" if found.rows > 1 else ""
    match found.kind:
        case Kind.MISSING:
            return f"{key}: missing in the lake{rows}"
        case Kind.SURPLUS:
            return f"{key}: surplus in the lake{rows}"
        case Kind.VALUE:
            texts = [
                f"{shown(name)} is {_value(ours)}, in the lake {_value(theirs)}"
                for name, (ours, theirs) in found.columns.items()
            ]
            return f"{key}: {'; '.join(texts)}"


def _value(text: str | None) -> str:
    if text is None:
        return "NULL"
    return shown(text if len(text) <= _VALUE_MAX else f"{text[:_VALUE_MAX]}...")
