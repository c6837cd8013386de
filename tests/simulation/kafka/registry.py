"""A schema registry in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tailrace_service.registry.client import RegisteredSchema, RegistryUnavailable
from tests.simulation.kafka.clients import KafkaFaults


@dataclass(slots=True)
class Schemas:
    """What the registry holds.

    Attributes:
        by_id: text of each schema; ids begin at 1.
        subjects: ids by subject, oldest first.
    """

    by_id: list[str] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)

    def text(self, schema_id: int) -> str:
        """The text of a schema."""
        return self.by_id[schema_id - 1]


class RegistryClient:
    """A client of it; see tailrace_publisher.ports.Registry."""

    def __init__(self, schemas: Schemas, tick: Callable[[], None], faults: KafkaFaults) -> None:
        self.url = "http://registry"
        self._schemas = schemas
        self._tick = tick
        self._faults = faults

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is kept."""

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """Register a schema; an equal one under the subject gives its id."""
        self._ask()
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        schemas = self._schemas
        if text not in schemas.by_id:
            schemas.by_id.append(text)
        schema_id = schemas.by_id.index(text) + 1
        ids = schemas.subjects.setdefault(subject, [])
        if schema_id not in ids:
            ids.append(schema_id)
        return schema_id

    def set_compatibility(self, subject: str, mode: str) -> bool:  # noqa: ARG002
        """It takes every schema; False where the subject is not known."""
        self._ask()
        return subject in self._schemas.subjects

    def schema_by_id(self, schema_id: int) -> dict[str, Any]:
        """The schema with that id."""
        self._ask()
        found: dict[str, Any] = json.loads(self._schemas.text(schema_id))
        return found

    def versions(self, subject: str) -> list[RegisteredSchema]:
        """All versions of a subject, oldest first."""
        self._ask()
        return [
            RegisteredSchema(subject, number, schema_id, json.loads(self._schemas.text(schema_id)))
            for number, schema_id in enumerate(self._schemas.subjects.get(subject, ()), 1)
        ]

    def subjects(self) -> list[str]:
        """All subjects."""
        self._ask()
        return list(self._schemas.subjects)

    def _ask(self) -> None:
        self._tick()
        if self._faults.registry:
            self._faults.registry -= 1
            raise RegistryUnavailable(self.url, "no answer")
