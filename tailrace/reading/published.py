"""What a publisher's configuration names as its progress topic, read to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.reading.progress import last_record

if TYPE_CHECKING:
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_schemas.records.progress import Progress


def last_published(config: PublisherConfig) -> Progress | None:
    """The newest progress record of a publisher, as :func:`last_record`.

    Raises:
        KafkaException: no broker answers, or it refuses.
    """
    kafka = config.kafka
    return last_record(
        kafka.bootstrap,
        config.topics,
        extra=kafka.librdkafka_options(),
        timeout_s=kafka.start_timeout_s,
    )
