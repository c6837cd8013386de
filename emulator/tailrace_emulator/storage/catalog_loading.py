"""Rows of the catalog into what is held in memory, when a database is opened."""

from __future__ import annotations

import json
from typing import Any, Final

from tailrace_emulator.storage.catalog_state import (
    CatalogState,
    ExtendedProperty,
    Module,
    ModuleParameter,
    Synonym,
)
from tailrace_emulator.storage.catalog_store import (
    BINDING,
    COLUMNS,
    PARAMETERS,
    PROPERTY,
    SEQUENCE,
    STATISTICS,
    SYNONYM,
    USER_TYPE,
    column_from_json,
    index_from_json,
    table_from_text,
)
from tailrace_emulator.storage.model import Sequence, Statistics, UserType
from tailrace_emulator.storage.principal_model import (
    Login,
    PermissionEntry,
    PermissionKey,
    Principal,
)
from tailrace_emulator.values.types import SqlType

_FIRST_FIELDS: Final = ("principal_id", "name", "type", "members")


def load_entry(state: CatalogState, kind: str, key: str, text: str) -> None:
    """Takes one row of the catalog into the state."""
    if kind == "table":
        table = table_from_text(text)
        state.tables[table.object_id] = table
        state.names[table.schema.casefold(), table.name.casefold()] = table.object_id
        return
    if _load_detail(state, kind, key, text):
        return
    if kind == SEQUENCE:
        _load_sequence(state, text)
        return
    if kind == USER_TYPE:
        _load_user_type(state, text)
        return
    value = json.loads(text)
    if kind == "schema":
        state.schemas[key] = value
    elif kind == "option":
        state.options[key] = value
    elif kind == "module":
        module = Module(**value)
        state.modules[module.schema.casefold(), module.name.casefold()] = module
    else:
        _load_security_entry(state, kind, key, value)


def _load_detail(state: CatalogState, kind: str, key: str, text: str) -> bool:
    """Takes one row of the catalog into the state; returns whether its kind is one of these."""
    value = json.loads(text)
    if kind == COLUMNS:
        state.columns[int(key)] = tuple(column_from_json(column) for column in value)
    elif kind == PARAMETERS:
        state.parameters[int(key)] = tuple(_parameter(parameter) for parameter in value)
    elif kind == PROPERTY:
        found = ExtendedProperty(**value)
        state.properties[found.key] = found
    elif kind == SYNONYM:
        synonym = Synonym(**{**value, "base": tuple(value["base"])})
        state.synonyms[synonym.schema.casefold(), synonym.name.casefold()] = synonym
    elif kind == BINDING:
        state.bindings[int(key)] = frozenset((found, column) for found, column in value)
    elif kind == STATISTICS:
        state.statistics[int(key)] = tuple(
            Statistics(**{**found, "column_ids": tuple(found["column_ids"])}) for found in value
        )
    else:
        return False
    return True


def _load_security_entry(state: CatalogState, kind: str, key: str, value: Any) -> bool:
    """Put one stored entry into the state; False for a kind that is not kept here."""
    if kind == "principal":
        # Older data directories keep a list of the first four fields.
        fields = value if isinstance(value, dict) else dict(zip(_FIRST_FIELDS, value, strict=True))
        state.principals[key] = Principal(**{**fields, "members": tuple(fields["members"])})
    elif kind == "login":
        state.logins[key] = Login(**value)
    elif kind == "server_role":
        state.server_roles[int(key)] = tuple(value)
    elif kind == "permission":
        parts = key.split(":", 4)
        securable_class, major_id, minor_id, grantee = (int(part) for part in parts[:4])
        known = PermissionKey(securable_class, major_id, minor_id, grantee, parts[4])
        state.permissions[known] = PermissionEntry(*value)
    elif kind == "owner":
        state.owners[key] = value
    else:
        return False
    return True


def sequence_from_text(text: str) -> Sequence:
    """A sequence from its row in the catalog."""
    raw: dict[str, Any] = json.loads(text)
    return Sequence(**{**raw, "type": SqlType(**raw["type"])})


def _load_sequence(state: CatalogState, text: str) -> None:
    """Takes a sequence of the catalog into the state."""
    sequence = sequence_from_text(text)
    state.sequences[sequence.schema.casefold(), sequence.name.casefold()] = sequence


def _load_user_type(state: CatalogState, text: str) -> None:
    """Takes a type of the catalog into the state."""
    raw: dict[str, Any] = json.loads(text)
    raw["type"] = None if raw["type"] is None else SqlType(**raw["type"])
    raw["columns"] = tuple(column_from_json(column) for column in raw["columns"])
    raw["indexes"] = tuple(index_from_json(index) for index in raw["indexes"])
    found = UserType(**raw)
    state.user_types[found.schema.casefold(), found.name.casefold()] = found


def _parameter(raw: dict[str, Any]) -> ModuleParameter:
    declared = raw["type"]
    return ModuleParameter(**{**raw, "type": None if declared is None else SqlType(**declared)})
