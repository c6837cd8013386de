"""Commands that read the lake itself: query."""

from __future__ import annotations

import json
from typing import Any

import click

from tailrace.cli.options import Configuration, configured, failing_with
from tailrace.reading.terminal import shown, shown_json


@click.command()
@click.argument("statement", metavar="SELECT")
@click.option("--lsn", metavar="LSN", help="Newest cut at or before this LSN. Default: the newest.")
@click.option(
    "--time",
    metavar="TIME",
    help="Newest cut at or before this commit time (ISO 8601, UTC).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per row.")
@configured
def query(
    configuration: Configuration, statement: str, lsn: str | None, time: str | None, as_json: bool
) -> None:
    """Query the lake at one cut, without Spark.

    Runs DuckDB. Tables are schema.table, companions "orders.changes" and
    "orders.history". The cut includes what only the lake's log has yet. For T-SQL on the source:
    tailrace sql.
    """
    from tailrace.lake.duck import rows_over
    from tailrace.lake.reader import Lake
    from tailrace.lake.store import LakeStore
    from tailrace_sink.errors import SinkError

    config = configuration.sink
    with failing_with(SinkError):
        lake = Lake(LakeStore.of(config.lake, config.store or {}), config.iceberg)
        cut = lake.as_of(lsn=lsn, time=time)
        rows = rows_over(cut, statement)
    if rows is not None:
        _print(rows, as_json=as_json)
    click.echo(f"The cut at LSN {cut.id}.", err=True)


def _print(rows: Any, *, as_json: bool) -> None:
    if as_json:
        for row in rows.to_pylist():
            click.echo(shown_json(json.dumps(row, default=_plain, ensure_ascii=False)))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in rows.column_names:
        table.add_column(Text(shown(name)))
    for row in rows.to_pylist():
        values = ("" if value is None else str(_plain(value)) for value in row.values())
        table.add_row(*(Text(shown(value)) for value in values))
    Console().print(table)


def _plain(value: Any) -> Any:
    """Return bytes as hex digits; other values as their text."""
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
