"""What is shown of names and messages cannot act on a terminal."""

from __future__ import annotations

import json

import structlog
from hypothesis import given
from hypothesis import strategies as st

from tailrace.cli.log_format import set_log_format
from tailrace.reading.terminal import shown, shown_json


def test_what_a_terminal_obeys_becomes_its_escape():
    for text, told in (
        ("dbo.orders", "dbo.orders"),
        ("dbo.Ünï漢字😀", "dbo.Ünï漢字😀"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\nb\tc", r"a\nb\tc"),
        ("a\x9b31mb", r"a\x9b31mb"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u2028b", r"a\u2028b"),
        ("half \ud83d", r"half \ud83d"),
        ("non\u00a0breaking", "non\u00a0breaking"),
    ):
        assert shown(text) == told
    assert shown("one\n\ttwo\r", lines=True) == "one\n\ttwo\\r"


@given(st.text(st.characters()))
def test_whatever_it_is_it_can_be_written_and_is_one_line(text: str):
    told = shown(text)
    assert told.encode("utf-8").decode("utf-8") == told
    assert len(told.splitlines()) <= 1
    assert "\x1b" not in told
    told = shown_json(json.dumps({text: text}, ensure_ascii=False))
    assert told.encode("utf-8").decode("utf-8") == told
    assert json.loads(told) == {text: text}


def test_no_value_of_an_event_forges_a_line_of_the_log(capsys):
    set_log_format("text", "publisher")
    structlog.get_logger().warning("table_stopped", table="dbo.a\n2026 [info] all is well\x1b[8m")
    told = capsys.readouterr().out
    assert told.count("\n") == 1
    assert "\x1b" not in told
    assert "all is well" in told
