"""How every command fails: one sentence that names what is away, its address and the fix.

Errors of one command alone are caught there (:func:`failing_with`).
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tailrace_publisher.options.kafka import KafkaConfig

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def sentence_of(error: Exception, kafka: KafkaConfig | None) -> str | None:
    """What to print instead of a stack trace; None if the error is a defect.

    Args:
        kafka: of the command's configuration; None if it was not read.
    """
    if isinstance(error, OSError) and error.errno in _FULL:
        where = f" at {error.filename}" if error.filename else ""
        return f"The disk is full{where}. Fix: free some space, then run the command again"
    from confluent_kafka import KafkaException

    from tailrace.reading.kafka_failure import kafka_failure
    from tailrace.reading.progress import DividedIntoShards
    from tailrace_publisher.errors import KafkaUnavailable, PublisherError
    from tailrace_service.registry.client import RegistryError
    from tailrace_sink.errors import SinkError

    of_client = error if isinstance(error, KafkaException) else error.__cause__
    if kafka is not None and isinstance(of_client, KafkaException):
        failure = kafka_failure(kafka, of_client)
        if error is of_client or isinstance(failure, KafkaUnavailable):
            return str(failure)
    if kafka is not None and isinstance(error, TimeoutError):
        return str(error) or str(kafka_failure(kafka))
    named = (PublisherError, RegistryError, SinkError, DividedIntoShards)
    return str(error) if isinstance(error, named) else None
