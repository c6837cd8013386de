"""What becomes of events that cannot be published as they are."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field


class OnBadEvent(StrEnum):
    """What an event does that does not fit its schema, or is too large."""

    FAIL = "fail"
    STOP_TABLE = "stop-table"
    DEAD_LETTER = "dead-letter"


class UnavailableValues(StrEnum):
    """What an event has in the place of a value that the change table does not hold."""

    MARK = "mark"
    PLACEHOLDER = "placeholder"
    RESELECT = "reselect"


class Surrogates(StrEnum):
    """What becomes of a text that holds half a surrogate pair."""

    FAIL = "fail"
    REPLACE = "replace"
    NULL = "null"


SurrogatesOption = Annotated[
    Surrogates,
    Field(
        description="What becomes of text that holds half a surrogate pair, which SQL Server stores"
        " and no event can: fail (default) stops the table, naming column and position; replace"
        " puts U+FFFD in the place of each half; null publishes NULL instead of the value. The last"
        " two are told once per column, and key columns stop their table whatever it says.",
    ),
]
OnBadEventOption = Annotated[
    OnBadEvent,
    Field(
        description="What becomes of an event that cannot be published: a value that its column's"
        " type does not hold, or more bytes than the producer or the topic allows. stop-table"
        " (default) stops its table, by name, and the others go on; fail ends the publisher, which"
        " meets it again at each start; dead-letter goes on without the event and puts it into"
        " <prefix>.dead_letters (one partition, kept for ever unless kafka.topic_settings say"
        " otherwise) in the same Kafka transaction: the topic and the lake lack a change then, and"
        " tailrace_dead_letters_total counts it. A schema that the registry refuses is no event's"
        " fault: dead-letter stops its table, fail ends the publisher.",
    ),
]
UnavailableValuesOption = Annotated[
    UnavailableValues,
    Field(
        description="What an event has where the change table does not hold a large value, because"
        " an update left it alone (and of text, ntext and image in deletes). mark (default): NULL,"
        " and the column's name in source.unavailable; placeholder: unavailable_placeholder, and"
        " the name as before, by which the sink goes; reselect: the value that the source has now,"
        " selected by the table's primary key or unique index, which costs a round trip per ten"
        " updates. It may be newer than the event. Where the row is gone or locked, the value NULL,"
        " or the table has no such key, it is marked.",
    ),
]
UnavailablePlaceholderOption = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1000,
        description="Text of unavailable_values: placeholder; binary columns have its UTF-8 bytes,"
        " hierarchyid, geometry and geography stay NULL. 1 to 1000 characters, default Debezium's.",
    ),
]
