"""Options of what events are and how they are written."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tailrace_schemas.events.forms import EventForm, EventShape
from tailrace_schemas.events.serializations import JsonDecimals, Serialization

EventFormOption = Annotated[
    EventForm,
    Field(
        description="What the value of an event is: debezium (default), the envelope with before,"
        " after, source, op; flat, the row as it is after the change, of a delete as it was"
        " before, with __op, __deleted (the texts true and false), __commit_lsn, __source_ts_ms,"
        " __position, __unavailable and __ts_ms after its columns, as Debezium's"
        " ExtractNewRecordState makes it; cloudevents, a CloudEvent of structured mode with both"
        " images, as Debezium's CloudEventsConverter makes it, which needs serialization: json. The"
        " sink reads debezium only. flat is not to be had with transaction_metadata. Another form"
        " than before is a new version of the topics' schemas, which no mode of compatibility but"
        " NONE allows; NONE is also what Apicurio has where nobody says otherwise, and both forms"
        " are in one topic then. Take another prefix.",
    ),
]
SerializationOption = Annotated[
    Serialization,
    Field(
        description="How events and their keys are written: avro (default), Confluent's wire format"
        " with Avro; json, plain JSON, as Kafka Connect's JsonConverter writes Debezium's events"
        " with schemas.enable=false; connect_json, the same with Connect's schema in every record"
        " (schemas.enable=true); json_schema, Confluent's wire format with JSON, whose JSON Schema"
        " is in the registry. The registry has the versions' JSON Schema in all three. Progress,"
        " checkpoint and the other topics beside the data stay Avro. The sink reads avro only. JSON"
        " costs time and bytes per event. Another serialization than before is a new version of the"
        " topics' schemas, to which the same applies as to another form: take another prefix.",
    ),
]
JsonDecimalsOption = Annotated[
    JsonDecimals,
    Field(
        description="How JSON has decimal, numeric, money and smallmoney: base64 (default), the"
        " unscaled value big-endian, as JsonConverter writes Debezium's"
        " decimal.handling.mode=precise; text, the digits, as decimal.handling.mode=string. Both"
        " are exact. Only with a serialization of JSON.",
    ),
]
ConnectTypesOption = Annotated[
    bool,
    Field(
        description="Have the Avro schemas tell Kafka Connect's AvroConverter what Avro's own types"
        " do not: connect.name io.debezium.time.MicroTimestamp for datetime2, datetime and"
        " smalldatetime, MicroTime for time, ZonedTimestamp for datetimeoffset,"
        " io.debezium.data.Xml and Json, connect.type int16 for tinyint and smallint; default"
        " false. It reads decimal and date without. The bytes of events are the same; each topic"
        " gets one more version, which is compatible in every mode. Only with serialization: avro:"
        " the others say it always.",
    ),
]


def check_event_options(
    shape: EventShape,
    json_decimals: JsonDecimals,
    *,
    connect_types: bool,
    transaction_metadata: bool,
) -> None:
    """Refuse options of events that contradict each other.

    Raises:
        ValueError: two do, by name.
    """
    is_avro = shape.serialization is Serialization.AVRO
    if is_avro and json_decimals is not JsonDecimals.BASE64:
        raise ValueError(
            f"json_decimals: {json_decimals.value} says how JSON has decimals, and with"
            " serialization: avro there is none: leave it out, or take serialization: json"
        )
    if connect_types and not is_avro:
        raise ValueError(
            "connect_types: true is for the schemas of serialization: avro, and serialization:"
            f" {shape.serialization.value} says them always: leave it out"
        )
    if shape.form is EventForm.CLOUDEVENTS and shape.serialization is not Serialization.JSON:
        raise ValueError(
            "event_form: cloudevents is written as JSON, and serialization is"
            f" {shape.serialization.value}: take serialization: json with it"
        )
    if transaction_metadata and shape.form is EventForm.FLAT:
        raise ValueError(
            "transaction_metadata: true numbers events in their envelope, and with event_form:"
            " flat they have none: leave one of them out"
        )
