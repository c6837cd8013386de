"""sys.sequences, INFORMATION_SCHEMA.SEQUENCES and sp_sequence_get_range.

SQL Server types start, limits and current value as sql_variant; here they are bigint (decimal
sequences that go beyond it show NULL).

https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-sequences-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.names import database_of, split_name
from tailrace_emulator.catalog.object_views import OBJECTS, object_row
from tailrace_emulator.catalog.objects import objects
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    integer,
    procedure,
    text,
)
from tailrace_emulator.catalog.registry import Columns, Row, view
from tailrace_emulator.catalog.type_facts import type_facts
from tailrace_emulator.messages.errors import Aborts
from tailrace_emulator.values.results import Event, ReturnValue
from tailrace_emulator.values.types import BIGINT, INT, nvarchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.values.types import StorageValue

_BIGINT_MAX: Final = 2**63 - 1


_SEQUENCES: Final = OBJECTS.extended(
    """start_value bigint!, increment bigint!, minimum_value bigint, maximum_value bigint,
 is_cycling bit, is_cached bit, cache_size int, system_type_id tinyint!, user_type_id int!,
 precision tinyint!, scale tinyint, current_value bigint!, is_exhausted bit!,
 last_used_value bigint"""
)


@view("sys.sequences", _SEQUENCES)
def _sequences(context: SessionContext, database: Database) -> Iterator[Row]:
    values = database.engine.sequences
    by_id = {found.object_id: found for found in database.state.sequences.values()}
    for item in objects(context, database):
        sequence = by_id.get(item.object_id) if item.type == "SO" else None
        if sequence is None:
            continue
        facts = type_facts(sequence.type)
        yield _SEQUENCES.row(
            object_row(database, item),
            start_value=_shown(sequence.start),
            increment=_shown(sequence.increment),
            minimum_value=_shown(sequence.minimum),
            maximum_value=_shown(sequence.maximum),
            is_cycling=int(sequence.is_cycling),
            is_cached=int(sequence.cache != 0),
            cache_size=sequence.cache or None,
            system_type_id=facts.system_type_id,
            user_type_id=facts.system_type_id,
            precision=facts.precision,
            scale=facts.scale,
            current_value=_shown(values.current(database, sequence)),
            is_exhausted=int(values.is_exhausted(database, sequence)),
            last_used_value=values.last(database, sequence),
        )


_INFORMATION_SEQUENCES: Final = Columns(
    """SEQUENCE_CATALOG nvarchar(128), SEQUENCE_SCHEMA nvarchar(128), SEQUENCE_NAME sysname!,
 DATA_TYPE sysname!, NUMERIC_PRECISION tinyint!, NUMERIC_PRECISION_RADIX smallint = 10,
 NUMERIC_SCALE int, START_VALUE bigint, MINIMUM_VALUE bigint, MAXIMUM_VALUE bigint,
 INCREMENT bigint, CYCLE_OPTION bit, DECLARED_DATA_TYPE sysname,
 DECLARED_NUMERIC_PRECISION tinyint, DECLARED_NUMERIC_SCALE tinyint"""
)


@view("INFORMATION_SCHEMA.SEQUENCES", _INFORMATION_SEQUENCES)
def _information_schema(context: SessionContext, database: Database) -> Iterator[Row]:
    by_id = {found.object_id: found for found in database.state.sequences.values()}
    for item in objects(context, database):
        sequence = by_id.get(item.object_id) if item.type == "SO" else None
        if sequence is None:
            continue
        facts = type_facts(sequence.type)
        yield _INFORMATION_SEQUENCES.row(
            SEQUENCE_CATALOG=database.name,
            SEQUENCE_SCHEMA=sequence.schema,
            SEQUENCE_NAME=sequence.name,
            DATA_TYPE=sequence.type.name,
            NUMERIC_PRECISION=facts.precision,
            NUMERIC_SCALE=facts.scale,
            START_VALUE=_shown(sequence.start),
            MINIMUM_VALUE=_shown(sequence.minimum),
            MAXIMUM_VALUE=_shown(sequence.maximum),
            INCREMENT=_shown(sequence.increment),
            CYCLE_OPTION=int(sequence.is_cycling),
            DECLARED_DATA_TYPE=sequence.type.name,
            DECLARED_NUMERIC_PRECISION=facts.precision,
            DECLARED_NUMERIC_SCALE=facts.scale,
        )


def _shown(value: int) -> StorageValue:
    return value if -_BIGINT_MAX - 1 <= value <= _BIGINT_MAX else None


_NAME: Final = nvarchar(776)
_P = ProcedureParameter


@procedure(
    "sp_sequence_get_range",
    _P("@sequence_name", _NAME),
    _P("@range_size", BIGINT),
    _P("@range_first_value", BIGINT, None, output=True),
    _P("@range_last_value", BIGINT, None, output=True),
    _P("@range_cycle_count", INT, None, output=True),
    _P("@sequence_increment", BIGINT, None, output=True),
    _P("@sequence_min_value", BIGINT, None, output=True),
    _P("@sequence_max_value", BIGINT, None, output=True),
)
def _get_range(context: SessionContext, args: Arguments) -> Iterator[Event]:
    given = text(args["@sequence_name"]) or ""
    size = integer(args["@range_size"]) or 0
    name = split_name(given)
    database = name and database_of(context.engine, context.database, name.database)
    sequence = database.sequence(name.schema or "dbo", name.name) if name and database else None
    if sequence is None or not database:
        raise messages.error(208, given, procedure="sp_sequence_get_range", aborts=Aborts.STATEMENT)
    if size < 1:
        raise messages.error(11733, "@range_size", procedure="sp_sequence_get_range")
    first, last, cycles = database.engine.sequences.take(database, sequence, size)
    yield ReturnValue("@range_first_value", BIGINT, first)
    yield ReturnValue("@range_last_value", BIGINT, last)
    yield ReturnValue("@range_cycle_count", INT, cycles)
    yield ReturnValue("@sequence_increment", BIGINT, sequence.increment)
    yield ReturnValue("@sequence_min_value", BIGINT, _shown(sequence.minimum))
    yield ReturnValue("@sequence_max_value", BIGINT, _shown(sequence.maximum))
