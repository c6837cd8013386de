"""The tables: which are captured, by which key, and what of them is not.

What keeps a table from being published is what the publisher itself checks at its start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tailrace.doctor.asking import Source
from tailrace.doctor.findings import Finding, Fix, Judge, Part
from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.checks.preflight import check_source
from tailrace_publisher.daemon.checks.table_problems import refuses_first_start
from tailrace_publisher.errors import PreflightError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.tables import SchemaChange
from tailrace_publisher.source.catalog import capture_catalog as catalog
from tailrace_publisher.source.catalog.added_columns import CAPTURES_ALL, Uncaptured
from tailrace_publisher.source.catalog.capture_tsql import CaptureOptions, enable_table
from tailrace_publisher.source.catalog.instances import Catalog, KnownCatalog
from tailrace_publisher.source.catalog.next_instance import next_name, rotation_statements
from tailrace_publisher.source.catalog.partitions import captured_partitions, partitioned
from tailrace_publisher.source.catalog.table_instances import TableInstances, by_table
from tailrace_publisher.source.connection.quoting import quote_text
from tailrace_publisher.source.log.queries import is_cdc_enabled
from tailrace_schemas.topics.topic_names import TableName

_JUDGE: Final = Judge(Part.TABLES)
_INSTANCES_MAX: Final = 2
_NAMED_MAX: Final = 20
"""Tables without CDC that get a line of their own."""


def look_at_tables(source: Source, config: PublisherConfig) -> Iterator[Finding]:
    """Judge the tables that the configuration selects."""
    if not is_cdc_enabled(source.connection):
        return  # which the server's part says
    known = KnownCatalog.of(config)
    try:
        problems, captured = check_source(config, source.connection, known)
    except PreflightError as error:
        for text in error.problems:
            yield _JUDGE.problem("tables", text, "nothing is published while this is so")
        return
    chosen = {i.table for i in captured.instances if config.tables.selects(i.table)}
    is_refused = refuses_first_start(problems, chosen)
    for problem in problems:
        name = f"{problem.table.schema}.{problem.table.table}"
        later = "continue with its changes" if problem.is_of_snapshot else "leave the table out"
        first = "is refused" if is_refused else "leaves the table out"
        why = f"a first start {first}; later ones {later}"
        yield _JUDGE.problem(name, problem.text, why)
    yield from _not_captured(source, config)
    selected = [
        instance for instance in captured.instances if config.tables.selects(instance.table)
    ]
    by_name = by_table(selected)
    yield _JUDGE.ok("tables", f"{len(by_name)} captured and selected")
    yield from _keyless(by_name)
    yield from _in_other_collations(by_name)
    yield from _left_out(source, by_name, config, captured)
    yield from _switchable(source, selected)
    yield from _at_the_limit(by_name)


def _not_captured(source: Source, config: PublisherConfig) -> Iterator[Finding]:
    named = {entry.replace("\\", "").casefold() for entry in config.tables.include}
    missing = sorted(
        (schema, table)
        for schema, table, is_captured in catalog.user_tables(source.connection)
        if not is_captured
        and f"{schema}.{table}".casefold() not in named  # which the start check names
        and config.tables.selects(TableName(source.database, schema, table))
    )
    why = "its changes are not published, though tables.include matches it"
    for schema, table in missing[:_NAMED_MAX]:
        fix = Fix(f"{enable_table(schema, table)}, or name it in tables.exclude")
        yield _JUDGE.warning(f"{schema}.{table}", "is not captured", why, fix)
    if len(missing) > _NAMED_MAX:
        yield _JUDGE.warning(
            "tables",
            f"{len(missing) - _NAMED_MAX} more are not captured",
            why,
            Fix("tailrace enable, or narrow tables.include"),
        )


def _keyless(tables: dict[TableName, TableInstances]) -> Iterator[Finding]:
    for name, instances in sorted(tables.items(), key=lambda item: str(item[0])):
        if not instances.newest.key:
            yield _JUDGE.warning(
                f"{name.schema}.{name.table}",
                "has no primary key or unique index that its change table holds",
                "its events have no key, its lake table is a list of changes instead of a copy, and"
                " values of a new column from before its capture instance are not re-read",
                Fix(f"publisher.message_keys: {{{name.schema}.{name.table}: [<key columns>]}}"),
            )


def _in_other_collations(tables: dict[TableName, TableInstances]) -> Iterator[Finding]:
    for name, instances in sorted(tables.items(), key=lambda item: str(item[0])):
        collations = instances.newest.in_other_collations
        if collations:
            columns = ", ".join(f"{column} ({found})" for column, found in collations.items())
            yield _JUDGE.warning(
                f"{name.schema}.{name.table}",
                f"columns {columns} are not in the database's collation",
                "the capture process may store other characters than the table has, unless all are"
                " ASCII: Microsoft lists it among the known issues with CDC",
                Fix("make the columns nchar or nvarchar, or give them the database's collation"),
            )


def _left_out(
    source: Source,
    tables: dict[TableName, TableInstances],
    config: PublisherConfig,
    captured_now: Catalog,
) -> Iterator[Finding]:
    """Find tables whose newest capture instance lacks columns: added after it, or left out."""
    for table, instances in sorted(tables.items(), key=lambda item: str(item[0])):
        newest, name = instances.newest, f"{table.schema}.{table.table}"
        if not newest.not_captured:
            continue
        lacks = captured_now.uncaptured.get(newest.object_id, CAPTURES_ALL)
        successor = next_name(newest.name, [other.name for other in captured_now.instances])
        columns = _to_capture(newest, lacks)
        if config.tables.schema_change_of(table) is SchemaChange.ROTATE and lacks.asked_for:
            create, drop = rotation_statements(source.connection, newest, captured_now)
            fix = f"the running publisher does it (schema_change: rotate): {create}; {drop}"
        elif columns:
            fix = enable_table(table.schema, table.table, CaptureOptions(successor, columns))
        else:
            fix = (
                f"to publish them: tailrace enable {name} --capture-instance {successor} with a"
                " --column for each column that is to be captured"
            )
        yield _JUDGE.warning(
            name,
            f"columns {', '.join(newest.not_captured.values())} are not captured by {newest.name}",
            "a column that was added later, or left out of @captured_column_list, is in no event",
            Fix(fix),
        )


def _to_capture(newest: CaptureInstance, lacks: Uncaptured) -> list[str]:
    """Return the columns of a successor; empty if it gains none that may have been added later.

    They are listed, so that no statement captures a column without naming it.
    """
    highest = max((column.column_id for column in newest.columns), default=0)
    later = (name for number, name in sorted(newest.not_captured.items()) if number > highest)
    gained = [n for n in later if not (n in lacks.added and n in lacks.left_out)]
    return [*(c.name for c in newest.columns if c.in_source), *gained] if gained else []


def _switchable(source: Source, selected: list[CaptureInstance]) -> Iterator[Finding]:
    """Partitioned tables that allow ALTER TABLE ... SWITCH."""
    # See: sys.sp_cdc_enable_table, @allow_partition_switch
    found = partitioned(captured_partitions(source.connection), selected)
    for table, count in sorted(found.items(), key=str):
        yield _JUDGE.warning(
            f"{table.schema}.{table.table}",
            f"has {count} partitions, and its capture instance allows to switch them",
            "ALTER TABLE ... SWITCH writes no change rows: the publisher notices it, and stops the"
            " table or takes a new snapshot (snapshot.on_gap)",
            Fix(
                "where nothing is switched, enable it again with @allow_partition_switch = 0: the"
                " server then refuses SWITCH"
            ),
        )


def _at_the_limit(tables: dict[TableName, TableInstances]) -> Iterator[Finding]:
    for table, instances in sorted(tables.items(), key=lambda item: str(item[0])):
        if len(instances) < _INSTANCES_MAX:
            continue
        oldest = instances.oldest.name
        yield _JUDGE.warning(
            f"{table.schema}.{table.table}",
            f"has two capture instances, {' and '.join(i.name for i in instances)}",
            "SQL Server takes no third, so the next change of its columns cannot be captured",
            Fix(
                "After the closed LSN in tailrace status has passed the start of"
                f" {instances.newest.name}, disable the older instance:"
                f" EXEC sys.sp_cdc_disable_table @source_schema = {quote_text(table.schema)},"
                f" @source_name = {quote_text(table.table)},"
                f" @capture_instance = {quote_text(oldest)}"
            ),
        )
