"""Quoting, and what the driver's text form of datetimeoffset becomes."""

import struct

from publisher.config import SourceConfig
from publisher.source.connection import (
    connection_string,
    datetimeoffset_text,
    quote_name,
    quote_text,
)


def test_values_cannot_end_early_in_the_connection_string():
    config = SourceConfig.model_validate(
        {"host": "h", "database": "d;UID=x", "user": "u", "password": "p}a;ss{w"}
    )

    text = connection_string(config, "/lib/driver.so")

    assert "DATABASE={d;UID=x}" in text
    assert "PWD={p}}a;ss{w}" in text


def test_the_password_is_not_shown():
    config = SourceConfig.model_validate(
        {"host": "h", "database": "d", "user": "u", "password": "s3cret"}
    )

    assert "s3cret" not in repr(config)
    assert "s3cret" not in config.model_dump_json()


def test_identifiers_and_literals_are_quoted():
    assert quote_name("a]b") == "[a]]b]"
    assert quote_text("it's") == "N'it''s'"


def test_datetimeoffset_keeps_seven_digits_and_the_offset():
    raw = struct.pack("<6hI2h", 2013, 1, 2, 3, 4, 5, 123456700, -5, -30)

    assert datetimeoffset_text(raw) == "2013-01-02T03:04:05.1234567-05:30"
