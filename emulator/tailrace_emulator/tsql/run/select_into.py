"""SELECT .. INTO: the columns of the table that it makes."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace_emulator import messages
from tailrace_emulator.storage.model import Column, Identity
from tailrace_emulator.tsql.syntax.nodes import Body, Join, Select
from tailrace_emulator.values.results import ColumnMeta


def new_columns(body: Body, metas: Sequence[ColumnMeta]) -> list[Column]:
    """The columns of the new table.

    Raises:
        SqlError: 1038 a column has no name.
    """
    if not all(meta.name for meta in metas):
        raise messages.error(1038)
    keeps_identity = _keeps_identity(body, metas)
    return [
        Column(
            number,
            meta.name,
            meta.type,
            meta.nullable,
            Identity() if meta.identity and keeps_identity else None,
        )
        for number, meta in enumerate(metas, 1)
    ]


def _keeps_identity(body: Body, metas: Sequence[ColumnMeta]) -> bool:
    """Whether an identity column stays one: not from a join, not grouped, listed only once.

    https://learn.microsoft.com/sql/t-sql/queries/select-into-clause-transact-sql
    """
    return (
        isinstance(body, Select)
        and not isinstance(body.source, Join)
        and not body.group_by
        and sum(meta.identity for meta in metas) == 1
    )
