"""Options of events: what they are, how they are written, and which topics accompany them."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from tailrace_schemas.events.forms import EventForm, EventShape
from tailrace_schemas.events.serializations import JsonDecimals, Serialization
from tailrace_service.options.sections import Section


class OnBadEvent(StrEnum):
    """How to handle an event that does not fit its schema, or is too large."""

    FAIL = "fail"
    STOP_TABLE = "stop-table"
    DEAD_LETTER = "dead-letter"


class UnavailableValues(StrEnum):
    """What an event has instead of a value that the change table does not hold."""

    MARK = "mark"
    PLACEHOLDER = "placeholder"
    RESELECT = "reselect"


class Surrogates(StrEnum):
    """How to handle a text with half a surrogate pair."""

    FAIL = "fail"
    REPLACE = "replace"
    NULL = "null"


class Compatibility(StrEnum):
    """What a new version of a schema must be compatible with, in the registries' words."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


class EventOptions(Section):
    """What events are, and what is published with them."""

    surrogates: Surrogates = Field(
        default=Surrogates.FAIL,
        description="How to handle text with half a surrogate pair, which SQL Server can store and"
        " an event cannot: fail stops the table, naming column and position; replace publishes"
        " U+FFFD for each half; null publishes NULL instead of the value. The last two are logged"
        " once for each column. In a key column it always stops the table.",
    )
    on_bad_event: OnBadEvent = Field(
        default=OnBadEvent.STOP_TABLE,
        description="How to handle an event that cannot be published: a value does not fit its"
        " column's type, or the event has more bytes than the producer or the topic allows."
        " stop-table stops its table, and the others continue; fail ends the publisher, which meets"
        " the event again at each start; dead-letter continues without it and writes it to"
        " <prefix>.dead_letters (one partition, retained for ever unless kafka.topic_settings say"
        " otherwise) in the same Kafka transaction. The topic and the lake then lack a change,"
        " which tailrace_dead_letters_total counts. If the registry refuses a schema, dead-letter"
        " stops its table and fail ends the publisher.",
    )
    unavailable_values: UnavailableValues = Field(
        default=UnavailableValues.MARK,
        description="What an event has if the change table does not hold a large value, because an"
        " update did not change it (or before, for text, ntext and image). mark: NULL, and the"
        " column's name in source.unavailable; placeholder: unavailable_placeholder, and the name"
        " as with mark, which the sink uses; reselect: the source's present value, selected by the"
        " table's primary key or unique index. That costs a round trip per ten updates, and the"
        " value may be newer than the event. If the row is gone or locked, the value is NULL, or"
        " the table has no such key, the value is marked.",
    )
    unavailable_placeholder: str = Field(
        default="__debezium_unavailable_value",
        min_length=1,
        max_length=1000,
        description="Text of unavailable_values: placeholder; binary columns get its UTF-8 bytes,"
        " hierarchyid, geometry and geography stay NULL. 1 to 1000 characters, default Debezium's.",
    )
    event_form: EventForm = Field(
        default=EventForm.DEBEZIUM,
        description="What the value of an event is: debezium, the envelope with before, after,"
        " source, op; flat, the row as it is after the change, of a delete as it was before, with"
        " __op, __deleted (the texts true and false), __commit_lsn, __source_ts_ms, __position,"
        " __unavailable and __ts_ms after its columns, as Debezium's ExtractNewRecordState makes"
        " it; cloudevents, a CloudEvent of structured mode with both images, as Debezium's"
        " CloudEventsConverter makes it, which needs serialization: json. The sink reads debezium"
        " only. flat cannot be combined with transaction_metadata. Another form than before is a"
        " new version of the topics' schemas, which no mode of compatibility but NONE allows; NONE"
        " is also what Apicurio has where nobody says otherwise, and both forms are in one topic"
        " then. Take another prefix.",
    )
    serialization: Serialization = Field(
        default=Serialization.AVRO,
        description="How events and their keys are written: avro, Confluent's wire format with"
        " Avro; json, plain JSON, as Kafka Connect's JsonConverter writes Debezium's events with"
        " schemas.enable=false; connect_json, the same with Connect's schema in every record"
        " (schemas.enable=true); json_schema, Confluent's wire format with JSON, whose JSON Schema"
        " is in the registry. The registry has the versions' JSON Schema in all three. Progress,"
        " checkpoint and all topics without data stay Avro. The sink reads avro only. JSON costs"
        " time and bytes per event. Another serialization than before is a new version of the"
        " topics' schemas, to which the same applies as to another form: take another prefix.",
    )
    json_decimals: JsonDecimals = Field(
        default=JsonDecimals.BASE64,
        description="How JSON has decimal, numeric, money and smallmoney: base64, the unscaled"
        " value big-endian, as JsonConverter writes Debezium's decimal.handling.mode=precise; text,"
        " the digits, as decimal.handling.mode=string. Both are exact. Only with a serialization of"
        " JSON.",
    )
    connect_types: bool = Field(
        default=False,
        description="State in the Avro schemas, for Kafka Connect's AvroConverter, what Avro's own"
        " types do not: connect.name io.debezium.time.MicroTimestamp for datetime2, datetime and"
        " smalldatetime, MicroTime for time, ZonedTimestamp for datetimeoffset,"
        " io.debezium.data.Xml and Json, connect.type int16 for tinyint and smallint. It reads"
        " decimal and date without. The bytes of events are the same; each topic gets one more"
        " version, which is compatible in every mode. Only with serialization: avro: the others say"
        " it always.",
    )
    tombstones: bool = Field(
        default=True,
        description="Follow each delete by a record with its key and a null value (a tombstone). It"
        " is for subscribers that keep the newest value of each key, such as Kafka Streams, ksqlDB"
        " and JDBC sinks: it is how they learn that the key is gone, and in a compacted topic"
        " (kafka.allow_compaction) it lets the key be forgotten. The sink and tailrace audit need"
        " none and count none.",
    )
    transaction_metadata: bool = Field(
        default=False,
        description="Publish begin and end of each source transaction, with its events per table,"
        " to <prefix>.transaction (one partition), and give each event its transaction's id (the"
        " commit LSN), its number in it, and its number in it among those of its table. Both are in"
        " the Kafka transaction of the events. Rows of snapshots are in none. It costs time per"
        " event; switched on inside a large transaction, its rest is counted alone.",
    )
    schema_changes: bool = Field(
        default=False,
        description="Publish DDL of published tables, and hand-overs to newer capture instances, to"
        " <prefix>.<database>.ddl (one partition): text, table, LSN, and the events' columns before"
        " and after. Each record is published before the first event of its version, in the Kafka"
        " transaction that also stores this fact. DDL before the LSN with which a first start"
        " begins is not published.",
    )
    schema_compatibility: Compatibility | None = Field(
        default=None,
        description="Compatibility mode that the registry is given for the subjects of data topics,"
        " keys and values: NONE, BACKWARD, FORWARD, FULL, or one of the last three with"
        " _TRANSITIVE; default: the registry's own are left alone (Confluent's refuses what is not"
        " BACKWARD, Apicurio's nothing by default). Columns that are added or"
        " dropped are compatible in every mode; a type that changes mostly is in none but NONE: its"
        " table then stops, with the differences, before the first event of that version.",
    )

    @property
    def event_shape(self) -> EventShape:
        """What the events are, and how they are written."""
        return EventShape(self.event_form, self.serialization)

    @model_validator(mode="after")
    def _events_fit_together(self) -> Self:
        form, serialization, decimals = self.event_form, self.serialization, self.json_decimals
        is_avro = serialization is Serialization.AVRO
        if is_avro and decimals is not JsonDecimals.BASE64:
            raise ValueError(
                f"json_decimals: {decimals.value} applies to JSON only, and serialization is avro."
                " Fix: remove json_decimals, or set serialization: json"
            )
        if self.connect_types and not is_avro:
            raise ValueError(
                "connect_types: true is for serialization: avro, and serialization:"
                f" {serialization.value} always states these types. Fix: remove connect_types"
            )
        if form is EventForm.CLOUDEVENTS and serialization is not Serialization.JSON:
            raise ValueError(
                "event_form: cloudevents is written as JSON, and serialization is"
                f" {serialization.value}. Fix: set serialization: json"
            )
        if self.transaction_metadata and form is EventForm.FLAT:
            raise ValueError(
                "transaction_metadata: true numbers events in their envelope, and event_form: flat"
                " has none. Fix: remove one of the two"
            )
        return self
