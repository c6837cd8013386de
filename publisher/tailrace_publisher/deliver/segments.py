"""The segments of the publisher's compacted topics.

The brokers compact closed segments only, and every start reads such a topic from its beginning.
Kafka's own limits are seven days and 1 GB. With these, a topic that gets a record at each commit
holds millions of them before its first segment closes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from tailrace_publisher.deliver.topic_settings import alter_command, is_compacted

_log = structlog.get_logger(__name__)

_SEGMENTS: Final = {"segment.ms": 600_000, "segment.bytes": 16 << 20}
# Transaction markers stay this long after their records are gone, and a start reads them too.
_MARKERS_KEPT_MS: Final = 3_600_000
_TOLERATED: Final = 4

COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": str(_MARKERS_KEPT_MS),
    **{name: str(value) for name, value in _SEGMENTS.items()},
}
"""Settings of a new compacted topic, which every start reads from its beginning."""


def too_large_segments(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that let a compacted topic grow, with the values they should have."""
    return {
        name: str(wanted)
        for name, wanted in _SEGMENTS.items()
        if is_compacted(settings) and name in settings and int(settings[name]) > _TOLERATED * wanted
    }


def warn_of_large_segments(topic: str, settings: Mapping[str, str]) -> None:
    """Log a compacted topic whose segments make each start slower than the previous one."""
    wanted = too_large_segments(settings)
    if wanted:
        _log.warning(
            "topic_segments_too_large",
            topic=topic,
            settings={name: settings[name] for name in wanted},
            effect="each start reads every record since the last segment was closed: minutes, after"
            " some days of running",
            fix=f"tailrace doctor --fix, or {alter_command(topic, wanted)}",
        )
