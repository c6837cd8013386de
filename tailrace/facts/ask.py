"""Ask the read-only questions, and print the answers as sqlcmd prints those of the whole script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailrace.facts.script import Question, questions
from tailrace.reading.terminal import shown
from tailrace_publisher.errors import SourceError
from tailrace_publisher.ports import Connection


def answers(connection: Connection) -> Iterator[str]:
    """Yield the lines of the answers; a refusal is an answer.

    Raises:
        SourceError: the server did not answer.
    """
    for question in questions():
        if question.is_read_only:
            yield from _answer(connection, question)
            yield ""


def _answer(connection: Connection, question: Question) -> Iterator[str]:
    try:
        sets = connection.query_sets(question.batch)
    except SourceError as error:
        if not error.number or error.retryable:
            raise
        yield from _table(("fact", "refused", "text"), [(question.fact, error.number, error)])
        return
    for rows in sets:
        if rows:
            yield from _table([column[0] for column in rows[0].cursor_description], rows)


def _table(names: Any, rows: list[Any]) -> Iterator[str]:
    yield "|".join(names)
    yield "|".join("-" * len(name) for name in names)
    for row in rows:
        yield "|".join(map(_shown, row))


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return "0x" + value.hex().upper()
    return shown(" ".join(str(value).replace("\0", "").split()))
