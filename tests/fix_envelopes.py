"""A source of the tests' own (tests/envelopes), for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.envelopes.source import Source


@pytest.fixture
def source(kafka: str, registry: str) -> Iterator[Source]:
    """A source with a prefix of its own."""
    made = Source(kafka, registry)
    try:
        yield made
    finally:
        made.close()
