"""The tables: which are captured, by which key, and what of them is not.

What keeps a table from being published is what the publisher itself checks at its start.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from tailrace.doctor.asking import Source
from tailrace.doctor.findings import Finding, Fix, Judge, Part
from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.checks.preflight import check_source
from tailrace_publisher.errors import PermissionMissing, PreflightError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.source import ReadMode
from tailrace_publisher.options.tables import SchemaChange
from tailrace_publisher.source.catalog import capture_catalog as catalog
from tailrace_publisher.source.catalog.capture_tsql import CaptureOptions, enable_table
from tailrace_publisher.source.catalog.instances import Catalog, KnownCatalog, by_table
from tailrace_publisher.source.catalog.next_instance import rotation_statements
from tailrace_publisher.source.catalog.partitions import captured_partitions, partitioned
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
    known = KnownCatalog(by_function=config.source.read_mode is ReadMode.FUNCTION)
    try:
        problems, captured = check_source(config, source.connection, known)
    except PreflightError as error:
        for text in error.problems:
            yield _JUDGE.problem("tables", text, "nothing is published while this is so")
        return
    for problem in problems:
        name = f"{problem.table.schema}.{problem.table.table}"
        later = "continue with its changes" if problem.is_of_snapshot else "leave the table out"
        why = f"the first start is refused; later ones {later}"
        yield _JUDGE.problem(name, problem.text, why)
    yield from _not_captured(source, config)
    selected = [
        instance for instance in captured.instances if config.tables.selects(instance.table)
    ]
    by_name = by_table(selected)
    yield _JUDGE.ok("tables", f"{len(by_name)} captured and selected")
    yield from _keyless(by_name)
    yield from _left_out(source, by_name, config, captured)
    yield from _switchable(source, selected)
    yield from _at_the_limit(by_name)


def _not_captured(source: Source, config: PublisherConfig) -> Iterator[Finding]:
    plain = {name.replace("\\", "").casefold() for name in config.tables.plain_names()}
    missing = sorted(
        (schema, table)
        for schema, table, is_captured in catalog.user_tables(source.connection)
        if not is_captured
        and f"{schema}.{table}".casefold() not in plain  # which the start check names
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


def _keyless(tables: dict[TableName, list[CaptureInstance]]) -> Iterator[Finding]:
    for name, instances in sorted(tables.items(), key=lambda item: str(item[0])):
        if not instances[-1].key:
            yield _JUDGE.warning(
                f"{name.schema}.{name.table}",
                "has neither a primary key nor a unique index",
                "its events have no key, and its lake table is a list of changes instead of a copy",
                Fix(f"publisher.message_keys: {{{name.schema}.{name.table}: [<key columns>]}}"),
            )


def _left_out(
    source: Source,
    tables: dict[TableName, list[CaptureInstance]],
    config: PublisherConfig,
    captured_now: Catalog,
) -> Iterator[Finding]:
    """Find tables whose newest capture instance lacks columns: added after it, or left out."""
    try:
        rows = source.connection.query(
            "SELECT object_id, name FROM sys.columns WHERE object_id IN"
            " (SELECT source_object_id FROM cdc.change_tables) ORDER BY object_id, column_id"
        )
    except PermissionMissing:
        return
    columns: defaultdict[int, list[str]] = defaultdict(list)
    for object_id, name in rows:
        columns[object_id].append(str(name))
    for table, instances in sorted(tables.items(), key=lambda item: str(item[0])):
        newest = instances[-1]
        captured = {column.name.casefold() for column in newest.columns}
        missing = [c for c in columns[newest.source_object_id] if c.casefold() not in captured]
        if not missing:
            continue
        rotates = config.tables.schema_change_of(table) is SchemaChange.ROTATE
        if rotates and captured_now.added.get(newest.object_id):
            create, drop = rotation_statements(source.connection, newest, captured_now)
            fix = Fix(f"the running publisher does it (schema_change: rotate): {create}; {drop}")
        else:
            options = CaptureOptions(f"{newest.name}_next")
            fix = Fix(enable_table(table.schema, table.table, options))
        yield _JUDGE.warning(
            f"{table.schema}.{table.table}",
            f"columns {', '.join(missing)} are not captured by {newest.name}",
            "a column that was added later, or left out of @captured_column_list, is in no event",
            fix,
        )


def _switchable(source: Source, selected: list[CaptureInstance]) -> Iterator[Finding]:
    """Partitioned tables that allow ALTER TABLE ... SWITCH."""
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


def _at_the_limit(tables: dict[TableName, list[CaptureInstance]]) -> Iterator[Finding]:
    for table, instances in sorted(tables.items(), key=lambda item: str(item[0])):
        if len(instances) < _INSTANCES_MAX:
            continue
        oldest = instances[0].name
        yield _JUDGE.warning(
            f"{table.schema}.{table.table}",
            f"has two capture instances, {' and '.join(i.name for i in instances)}",
            "SQL Server takes no third, so the next change of its columns cannot be captured",
            Fix(
                "After the closed LSN in tailrace status has passed the start of"
                f" {instances[-1].name}, disable the older instance:"
                f" EXEC sys.sp_cdc_disable_table @source_schema = {quote_text(table.schema)},"
                f" @source_name = {quote_text(table.table)},"
                f" @capture_instance = {quote_text(oldest)}"
            ),
        )
