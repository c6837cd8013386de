"""Which source column a lake column mirrors, as the lake table's properties keep it.

A column's identity is the source's ``column_id``, which survives renames. ``tailrace.columns`` maps
each name to it, with the SQL Server type and the place in the key. An ALTER is another commit than
the one that changes a property, so what is about to be renamed or added is announced before, in
``tailrace.columns.pending``: whatever part of a series of ALTERs was done before a crash, every
column is known by one of the two. Comments belong to whoever reads the lake.

Releases before 0.2 kept identities in the columns' comments; those are taken over once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

COLUMNS_PROPERTY: Final = "tailrace.columns"
PENDING_PROPERTY: Final = "tailrace.columns.pending"
_COMMENT: Final = re.compile(r"^(?P<type>[^;]*); column_id=(?P<id>\d+)(?:; key=(?P<key>\d+))?$")


class Identity(NamedTuple):
    """What a lake column mirrors.

    Attributes:
        column_id: the source's column id.
        sql_type: SQL Server type of the newest version.
        key_ordinal: 1-based place in the key, 0 when not part of it.
    """

    column_id: int
    sql_type: str
    key_ordinal: int = 0


def identities_text(identities: Iterable[tuple[str, Identity]]) -> str:
    """The value of the property."""
    listed = {name: list(identity) for name, identity in identities}
    return json.dumps(listed, ensure_ascii=False, separators=(",", ":"))


def parse_identities(text: str | None) -> dict[str, Identity]:
    """Identities by name; none when there is no such property.

    Raises:
        ValueError: somebody else wrote another text there.
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
    """Identities by name, of all names that a column may have.

    Args:
        properties: the table's.
        comments: of the columns by name; looked at when there is no property.

    Returns:
        The identities, and the ids of the columns that the table must have.

    Raises:
        ValueError: somebody else wrote another text there.
    """
    settled = parse_identities(properties.get(COLUMNS_PROPERTY))
    if not settled:
        for name, comment in comments.items():
            of_comment = parse_comment(comment)
            if of_comment is not None:
                settled[name] = of_comment
    ids = frozenset(identity.column_id for identity in settled.values())
    return {**settled, **parse_identities(properties.get(PENDING_PROPERTY))}, ids


def parse_comment(comment: str | None) -> Identity | None:
    """The identity in a column comment of an earlier release, None when it has none."""
    match = _COMMENT.match(comment or "")
    if match is None:
        return None
    return Identity(int(match["id"]), match["type"], int(match["key"] or 0))
