"""``tailrace sql``: T-SQL at the stack's server or at a configured source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tailrace.local.stack import stack_config
from tailrace.reading.terminal import shown
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.source.connection.driver import find_driver, load_pyodbc
from tailrace_publisher.source.connection.quoting import connection_string
from tailrace_publisher.source.connection.reachable import check_reachable


class SqlFailed(Exception):
    """The stack does not run, or a statement failed; the text has the server's words."""


def stack_source(data_dir: Path, database: str) -> SourceConfig:
    """Return the server that ``tailrace up`` keeps.

    Raises:
        SqlFailed: no stack was started there.
    """
    try:
        options: Any = stack_config(data_dir, prefix="local", database=database)
    except KeyError as error:  # a folder where no stack was started
        raise SqlFailed(
            f"No stack was started in {data_dir}. Fix: run tailrace up, or name its folder"
            " by --data-dir."
        ) from error
    return SourceConfig.model_validate(options["publisher"]["source"])


def run(source: SourceConfig, text: str) -> None:
    """Run the batches of a script, and print what they return.

    Args:
        text: batches, with ``GO`` between them on lines of their own.

    Raises:
        SqlFailed: at the first statement that fails.
        PublisherError: there is no driver, or nothing listens at the address.
    """
    check_reachable(source)
    pyodbc, console = load_pyodbc(), Console()
    try:
        with pyodbc.connect(
            connection_string(source, find_driver(source.driver)),
            autocommit=True,
            timeout=source.login_timeout_s,
        ) as connection:
            for batch in batches(text):
                for cursor in _results(connection.execute(batch)):
                    console.print(_table(cursor))
    except pyodbc.Error as error:
        raise SqlFailed(shown(str(error.args[-1]))) from error


def batches(text: str) -> list[str]:
    """The batches of a script."""
    return [part for part in re.split(r"(?im)^\s*GO\s*;?\s*$", text) if part.strip()]


def _results(cursor: Any) -> Iterator[Any]:
    """The cursor at each of its result sets with columns."""
    has_more = True
    while has_more:
        if cursor.description is not None:
            yield cursor
        has_more = cursor.nextset()


def _table(cursor: Any) -> Table:
    table = Table(*(shown(str(column[0])) for column in cursor.description))
    for row in cursor:
        table.add_row(*("NULL" if value is None else shown(_text(value)) for value in row))
    return table


def _text(value: object) -> str:
    return "0x" + value.hex().upper() if isinstance(value, bytes) else str(value)
