"""CREATE, ALTER and DROP SEQUENCE."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.storage.model import Sequence
from tailrace_emulator.storage.sequences import (
    alter_sequence,
    create_sequence,
    drop_sequence,
)
from tailrace_emulator.tsql.compile.names import resolve_name
from tailrace_emulator.tsql.compile.sequence_rules import next_values
from tailrace_emulator.tsql.syntax.nodes import Name
from tailrace_emulator.tsql.syntax.sequence_statements import DefineSequence
from tailrace_emulator.values.types import BIGINT, SqlType

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

_RANGES: Final = {
    "tinyint": (0, 255),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}


def define_sequence(context: SessionContext, node: DefineSequence) -> None:
    """CREATE and ALTER SEQUENCE.

    Raises:
        SqlError: 2714, 2760, 208; 11700 to 11706 for values that do not go together.
    """
    where = resolve_name(context, node.name, node.line)
    if node.alter:
        known = where.database.sequence(where.schema, where.name)
        if known is None:
            raise messages.invalid_object(node.name, node.line)
        changed = _defined(known, node)
        alter_sequence(context.store, where.database, changed, restart=node.restart)
        return
    sql_type = node.type or BIGINT
    low, high = _range(sql_type, messages.dotted(node.name))
    blank = Sequence(0, where.schema, where.name, sql_type, 0, 1, low, high)
    create_sequence(context.store, where.database, _defined(blank, node))


def _range(sql_type: SqlType, name: str) -> tuple[int, int]:
    """The limits of a type."""
    if sql_type.is_decimal and sql_type.name in {"decimal", "numeric"} and sql_type.scale == 0:
        if sql_type.precision > 18:
            raise not_supported("sequences of more than 18 digits")
        return -(10**sql_type.precision) + 1, 10**sql_type.precision - 1
    found = _RANGES.get(sql_type.name)
    if found is None:
        raise messages.error(11702, name)
    return found


def _defined(known: Sequence, node: DefineSequence) -> Sequence:
    """The sequence with what a statement says, checked."""
    name = messages.dotted(node.name)
    low, high = _range(known.type, name)
    increment = known.increment if node.increment is None else node.increment
    minimum = _limit(node.minimum, known.minimum, low)
    maximum = _limit(node.maximum, known.maximum, high)
    if increment == 0:
        raise messages.error(11700, name)
    if minimum >= maximum:
        raise messages.error(11705, name)
    if abs(increment) > maximum - minimum:
        raise messages.error(11701, name)
    start = known.start
    if node.start is not None:
        start = node.start
    elif not node.alter:
        start = minimum if increment > 0 else maximum
    if not minimum <= start <= maximum:
        raise messages.error(11703, name)
    cache = known.cache
    if node.cache is not None:
        cache = None if isinstance(node.cache, str) else node.cache
    return replace(
        known,
        start=start,
        increment=increment,
        minimum=minimum,
        maximum=maximum,
        is_cycling=known.is_cycling if node.cycle is None else node.cycle,
        cache=cache,
    )


def _limit(given: int | str | None, known: int, default: int) -> int:
    """MINVALUE or MAXVALUE."""
    if given is None:
        return known
    return default if isinstance(given, str) else given


def drop(context: SessionContext, name: Name, line: int) -> None:
    """DROP SEQUENCE.

    Raises:
        SqlError: 3701 when there is none, 3729 when a default uses it.
    """
    where = resolve_name(context, name, line)
    sequence = where.database.sequence(where.schema, where.name)
    if sequence is None:
        raise messages.cannot_drop("sequence object", messages.dotted(name))
    user = _user_of(context, where.database, sequence)
    if user is not None:
        raise messages.error(3729, "DROP SEQUENCE", messages.dotted(name), user)
    drop_sequence(context.store, where.database, sequence)


def _user_of(context: SessionContext, database: Database, sequence: Sequence) -> str | None:
    """The name of a default constraint that takes values of the sequence, or None."""
    from tailrace_emulator.tsql.syntax.parser import parse_expression

    for table in database.tables():
        for column in table.columns:
            if column.default is None or "NEXT VALUE" not in column.default.upper():
                continue
            for node in next_values(parse_expression(column.default)):
                where = resolve_name(context, node.name, 1)
                if where.database.sequence(where.schema, where.name) is sequence:
                    return column.default_name
    return None
