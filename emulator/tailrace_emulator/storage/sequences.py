"""Sequences: the DDL of their definitions. Their values are those of sequence_values.py.

https://learn.microsoft.com/sql/t-sql/statements/create-sequence-transact-sql
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import apsw

from tailrace_emulator import messages
from tailrace_emulator.storage.catalog_store import SEQUENCE, delete_entry, put_entry
from tailrace_emulator.storage.ddl_scope import DdlTarget, ddl_scope
from tailrace_emulator.storage.model import Sequence

if TYPE_CHECKING:
    from tailrace_emulator.storage.database import Database


def create_sequence(target: DdlTarget, database: Database, sequence: Sequence) -> Sequence:
    """Create a sequence; its object id is given out here.

    Raises:
        SqlError: 2714 name taken, 2760 unknown schema.
    """
    with ddl_scope(target, database) as connection:
        schema = database.schema_name(sequence.schema)
        if schema is None:
            raise messages.error(2760, sequence.schema)
        name = (schema, sequence.name)
        taken = database.table(*name) or database.module(*name) or database.synonym(*name)
        if taken or database.sequence(*name):
            raise messages.error(2714, sequence.name)
        now = database.engine.clock.now_ticks()
        object_id = database.allocate_object_id(connection)
        made = replace(
            sequence, object_id=object_id, schema=schema, create_ticks=now, modify_ticks=now
        )
        database.engine.sequences.begin(connection, database, made)
        _put(connection, database, made)
        return made


def alter_sequence(
    target: DdlTarget, database: Database, sequence: Sequence, *, restart: bool
) -> None:
    """Replace a sequence's definition; ``restart`` begins again at its start."""
    with ddl_scope(target, database) as connection:
        changed = replace(
            sequence,
            modify_ticks=database.engine.clock.now_ticks(),
            generation=sequence.generation + restart,
        )
        if restart:
            database.engine.sequences.begin(connection, database, changed)
        _put(connection, database, changed)


def drop_sequence(target: DdlTarget, database: Database, sequence: Sequence) -> None:
    """Drop a sequence."""
    with ddl_scope(target, database) as connection:
        delete_entry(connection, database.database_id, SEQUENCE, str(sequence.object_id))
        database.engine.sequences.end(connection, database, sequence)
        database.engine.write_path.will_change_catalog()
        del database.state.sequences[sequence.schema.casefold(), sequence.name.casefold()]
        database.version += 1


def _put(connection: apsw.Connection, database: Database, sequence: Sequence) -> None:
    text = json.dumps(asdict(sequence))
    put_entry(connection, database.database_id, SEQUENCE, str(sequence.object_id), text)
    database.engine.write_path.will_change_catalog()
    database.state.sequences[sequence.schema.casefold(), sequence.name.casefold()] = sequence
    database.version += 1
