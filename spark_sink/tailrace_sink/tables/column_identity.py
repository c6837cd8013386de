"""Identities of lake columns: the source column of each, stored in the table's properties.

The identity is the source's ``column_id``, which survives renames. ``tailrace.columns`` maps each
name to it, with the SQL Server type and the place in the key. A rename and a change of the property
are separate commits. So ``tailrace.columns.pending`` first announces names that will be renamed or
added. After a crash in a series of ALTERs, one of the two properties has every column. Comments
belong to the readers of the lake.

Releases before 0.2 stored identities in the columns' comments, which are converted once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

COLUMNS_PROPERTY: Final = "tailrace.columns"
PENDING_PROPERTY: Final = "tailrace.columns.pending"
DROPPED_PROPERTY: Final = "tailrace.columns.dropped"
"""Property with the ids of columns that the source no longer has."""
FIRST_ORIGIN_ID: Final = 1 << 62
"""Ids from here on are those of the columns of the origin, in tables with several sources."""
_RETIRED_OF: Final = 1000
_COMMENT: Final = re.compile(r"^(?P<type>[^;]*); column_id=(?P<id>\d+)(?:; key=(?P<key>\d+))?$")


class Identity(NamedTuple):
    """The source column of a lake column.

    Attributes:
        sql_type: SQL Server type of the newest schema version.
        key_ordinal: 1-based place in the key; 0 outside of it.
    """

    column_id: int
    sql_type: str
    key_ordinal: int = 0


def retired_id(column_id: int, number: int) -> int:
    """Return the id of a column that stays with values of an earlier type of its source column.

    Args:
        number: 1 for the first such column of a source column.
    """
    return -(column_id * _RETIRED_OF + number)


def source_id(column_id: int) -> int:
    """Return the id of the source column, also of a retired column."""
    return column_id if column_id >= 0 else -column_id // _RETIRED_OF


def identities_text(identities: Iterable[tuple[str, Identity]]) -> str:
    """Format identities as the value of the property."""
    listed = {name: list(identity) for name, identity in identities}
    return json.dumps(listed, ensure_ascii=False, separators=(",", ":"))


def parse_identities(text: str | None) -> dict[str, Identity]:
    """Parse the property into identities by name; empty without the property.

    Raises:
        ValueError: the text is not the sink's.
    """
    if not text:
        return {}
    try:
        return {
            name: Identity(int(column_id), str(sql_type), int(key))
            for name, (column_id, sql_type, key) in json.loads(text).items()
        }
    except (AttributeError, TypeError) as error:
        raise ValueError(f"not a list of columns: {text[:100]}") from error


def known_identities(
    properties: Mapping[str, str], comments: Mapping[str, str | None]
) -> tuple[dict[str, Identity], frozenset[int]]:
    """Return the identities of all names that a column may have.

    Args:
        properties: the properties of the table.
        comments: of the columns by name; used if there is no property.

    Returns:
        The identities by name, and the ids of the columns that the table must have.

    Raises:
        ValueError: the text of a property is not the sink's.
    """
    settled = parse_identities(properties.get(COLUMNS_PROPERTY))
    if not settled:
        for name, comment in comments.items():
            of_comment = parse_comment(comment)
            if of_comment is not None:
                settled[name] = of_comment
    ids = frozenset(identity.column_id for identity in settled.values())
    pending = parse_identities(properties.get(PENDING_PROPERTY))
    # A column that is being retired has another id before its successor is added.
    retired = {identity.column_id for identity in pending.values() if identity.column_id < 0} - ids
    return {**settled, **pending}, ids - {source_id(column_id) for column_id in retired}


def dropped_text(column_ids: Iterable[int]) -> str:
    """Format the value of the property with dropped columns."""
    return ",".join(map(str, sorted(column_ids)))


def parse_dropped(text: str | None) -> frozenset[int]:
    """Parse the property with dropped columns.

    Raises:
        ValueError: the text is not the sink's.
    """
    return frozenset(map(int, text.split(","))) if text else frozenset()


def parse_comment(comment: str | None) -> Identity | None:
    """Parse the identity in a column comment of an earlier release; None if it has none."""
    match = _COMMENT.match(comment or "")
    if match is None:
        return None
    return Identity(int(match["id"]), match["type"], int(match["key"] or 0))
