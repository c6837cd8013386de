"""Converts envelopes to CloudEvents; see ``tailrace_schemas.events.cloud_events``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from tailrace_schemas.events.cloud_events import EVENT_TYPE, POSITION_ATTRIBUTE, SPEC_VERSION
from tailrace_schemas.events.envelope import position_of

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ROW_DIGITS: Final = 16


def cloud_event(envelope: Mapping[str, Any], framed: bytes) -> dict[str, Any]:
    """Return the CloudEvent of an envelope whose values are already JSON's.

    Its id is the position. Rows of snapshots and patches share the position of their fence, so a
    hash of their own bytes distinguishes them.

    Args:
        framed: the envelope as Avro.
    """
    source = envelope["source"]
    digits = position_of(envelope).to_bytes().hex()
    name = source["name"]
    identity = f"name:{name};position:{digits}"
    if source["snapshot"] is not None:
        identity += f";row:{sha256(framed).hexdigest()[:_ROW_DIGITS]}"
    told = {
        "id": identity,
        "source": f"/debezium/{source['connector']}/{name}",
        "specversion": SPEC_VERSION,
        "type": EVENT_TYPE,
        "time": _time(source["ts_ms"]),
        "datacontenttype": "application/json",
        "iodebeziumop": envelope["op"],
        "iodebeziumversion": source["version"],
        "iodebeziumconnector": source["connector"],
        "iodebeziumname": name,
        "iodebeziumtsms": str(source["ts_ms"]),
        "iodebeziumsnapshot": source["snapshot"] or "false",
        "iodebeziumdb": source["db"],
        "iodebeziumschema": source["schema"],
        "iodebeziumtable": source["table"],
        "iodebeziumchangelsn": source["change_lsn"],
        "iodebeziumcommitlsn": source["commit_lsn"],
        POSITION_ATTRIBUTE: digits,
    }
    if source["event_serial_no"] is not None:
        told["iodebeziumeventserialno"] = str(source["event_serial_no"])
    transaction = envelope["transaction"]
    if transaction is not None:
        told["iodebeziumtxid"] = transaction["id"]
        told["iodebeziumtxtotalorder"] = str(transaction["total_order"])
        told["iodebeziumtxdatacollectionorder"] = str(transaction["data_collection_order"])
    return {
        **told,
        "data": {
            "before": envelope["before"],
            "after": envelope["after"],
            "changed": source["changed"],
            "unavailable": source["unavailable"],
        },
    }


def _time(ms: int) -> str:
    """Format a time by RFC 3339 with milliseconds."""
    moment = _EPOCH + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
