"""The schema registry and the lake: do they answer, and may we write."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace.doctor.findings import Finding, Fix, Judge, Part
from tailrace_publisher.checkpoint.lake_position import lake_position
from tailrace_publisher.daemon.offline.open_topics import open_topics
from tailrace_publisher.errors import PublisherError
from tailrace_service.registry.access import open_registry
from tailrace_service.registry.client import RegistryError
from tailrace_service.registry.options import RegistryConfig

if TYPE_CHECKING:
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_publisher.runtime import DatabaseTopics
    from tailrace_sink.options.config import SinkConfig

_REGISTRY: Final = Judge(Part.REGISTRY)
_LAKE: Final = Judge(Part.LAKE)
_WRITABLE: Final = frozenset({"READWRITE", "READWRITE_OVERRIDE"})


def look_at_registry(config: RegistryConfig) -> Iterator[Finding]:
    """Judge the schema registry."""
    try:
        with open_registry(config) as registry:
            subjects = registry.subjects()
            mode = registry.mode()
    except RegistryError as error:
        yield _REGISTRY.problem(
            config.url,
            str(error),
            "events are written with schemas that are registered first",
            Fix("check the section registry, and that the registry runs"),
        )
        return
    yield _REGISTRY.ok(config.url, f"answers, {len(subjects)} subjects")
    if mode is not None and mode not in _WRITABLE:
        yield _REGISTRY.problem(
            "mode",
            mode,
            "no new schema can be registered: a table's next version would stop it",
            Fix(f'curl -X PUT -d \'{{"mode": "READWRITE"}}\' {config.url}/mode'),
        )


def look_at_awaited_lakes(config: PublisherConfig) -> Iterator[Finding]:
    """Judge whether it is known how far the lakes are that the publisher waits for."""
    if not config.waits_for_lakes:
        return
    effect = f"{' and '.join(config.waits_for_lakes)} waits, and change tables grow"
    try:
        with open_topics(config) as topics:
            for group in config.lakes:
                yield _awaited_lake(topics, group, config.kafka.start_timeout_s, effect)
    except (PublisherError, RegistryError) as error:
        yield _LAKE.problem("lakes", str(error), effect)


def _awaited_lake(topics: DatabaseTopics, group: str, patience_s: float, effect: str) -> Finding:
    try:
        found = lake_position(topics, group, patience_s)
    except (PublisherError, RegistryError) as error:
        return _LAKE.problem(f"lakes: {group}", str(error), effect)
    return _LAKE.ok(f"lakes: {group}", f"has everything up to {found.closed_lsn}")


def look_at_lake(config: SinkConfig) -> Iterator[Finding]:
    """Judge the lake's address as what it is: objects in S3, or a folder."""
    if config.store is not None:
        from tailrace.doctor.object_store import look_at_store

        yield from look_at_store(config.lake, config.store)
    else:
        yield from _look_at_folder(config.lake)


def _look_at_folder(lake: str) -> Iterator[Finding]:
    """Write a file, rename it, list it, remove it."""
    from pyarrow import ArrowInvalid
    from pyarrow.fs import FileSelector, FileSystem

    try:
        files, path = FileSystem.from_uri(lake)
    except (ArrowInvalid, OSError, ImportError) as error:
        yield _LAKE.warning(
            lake,
            f"cannot be looked at from here ({error})",
            "Spark reaches it with its own file systems, which are not tried",
            Fix("tailrace sink --once tries it"),
        )
        return
    mark = f"_tailrace/doctor-{uuid.uuid4().hex}"
    doing = "making its folder"
    try:
        files.create_dir(f"{path}/_tailrace", recursive=True)
        doing = "writing a file"
        with files.open_output_stream(f"{path}/{mark}") as stream:
            stream.write(b"tailrace doctor")
        doing = "renaming a file"
        files.move(f"{path}/{mark}", f"{path}/{mark}.moved")
        doing = "listing its files"
        found = files.get_file_info(FileSelector(f"{path}/_tailrace"))
        doing = "removing a file"
        files.delete_file(f"{path}/{mark}.moved")
    except OSError as error:
        yield _LAKE.problem(
            lake,
            f"{doing} failed: {error}",
            "the sink does this at every cut",
            Fix("give the sink's user permission to write there, or choose another sink.lake"),
        )
        return
    if not any(info.path.endswith(f"{mark}.moved") for info in found):
        yield _LAKE.problem(
            lake, "a file that was written is not listed", "the sink would not find its own commits"
        )
        return
    yield _LAKE.ok(lake, "a file was written, renamed, listed and removed")
