"""User-defined types: other names for system types, and table types.

They have a namespace of their own beside the objects', and ids from 257 on in sys.types.

https://learn.microsoft.com/sql/t-sql/statements/create-type-transact-sql
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from emulator import messages
from emulator.storage.catalog_store import (
    column_from_json,
    delete_entry,
    index_from_json,
    put_entry,
)
from emulator.storage.ddl_scope import DdlTarget, ddl_scope
from emulator.storage.model import Column, Index
from emulator.types import SqlType

if TYPE_CHECKING:
    from emulator.storage.database import CatalogState, Database

USER_TYPE: Final = "user_type"
FIRST_USER_TYPE_ID: Final = 257


@dataclass(frozen=True, slots=True)
class UserType:
    """A type of a database.

    Attributes:
        user_type_id: its id in sys.types.
        schema: its schema.
        name: its name.
        type: what an alias type stands for; None of a table type.
        nullable: of an alias type: what columns are that say neither NULL nor NOT NULL.
        object_id: of a table type: the id of its table (type_table_object_id).
        columns: of a table type.
        indexes: of a table type: its keys.
        text: of a table type: the CREATE TYPE statement.
    """

    user_type_id: int
    schema: str
    name: str
    type: SqlType | None = None
    nullable: bool = True
    object_id: int = 0
    columns: tuple[Column, ...] = ()
    indexes: tuple[Index, ...] = ()
    text: str = ""

    @property
    def is_table(self) -> bool:
        """Whether it is a table type."""
        return self.type is None


def load_user_type(state: CatalogState, text: str) -> None:
    """Takes a type of the catalog into the state."""
    raw: dict[str, Any] = json.loads(text)
    raw["type"] = None if raw["type"] is None else SqlType(**raw["type"])
    raw["columns"] = tuple(column_from_json(column) for column in raw["columns"])
    raw["indexes"] = tuple(index_from_json(index) for index in raw["indexes"])
    found = UserType(**raw)
    state.user_types[found.schema.casefold(), found.name.casefold()] = found


def create_user_type(target: DdlTarget, database: Database, made: UserType) -> UserType:
    """Create a type; its ids are given out here.

    Raises:
        SqlError: 219 name taken, 2760 unknown schema.
    """
    with ddl_scope(target, database) as connection:
        schema = database.schema_name(made.schema)
        if schema is None:
            raise messages.error(2760, made.schema)
        if database.user_type(schema, made.name) is not None:
            raise messages.error(219, f"{schema}.{made.name}")
        taken = [known.user_type_id for known in database.state.user_types.values()]
        made = replace(
            made,
            user_type_id=max([FIRST_USER_TYPE_ID - 1, *taken]) + 1,
            schema=schema,
            object_id=database.allocate_object_id(connection) if made.is_table else 0,
        )
        text = json.dumps(asdict(made))
        put_entry(connection, database.database_id, USER_TYPE, str(made.user_type_id), text)
        database.engine.will_change_catalog()
        database.state.user_types[schema.casefold(), made.name.casefold()] = made
        database.version += 1
        return made


def drop_user_type(target: DdlTarget, database: Database, found: UserType) -> None:
    """Drop a type."""
    with ddl_scope(target, database) as connection:
        delete_entry(connection, database.database_id, USER_TYPE, str(found.user_type_id))
        database.engine.will_change_catalog()
        del database.state.user_types[found.schema.casefold(), found.name.casefold()]
        database.version += 1
