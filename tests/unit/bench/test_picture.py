"""The README's picture is of a result that is there, and tells its figures."""

import json
import re

import pytest

from bench.picture import PICTURE, RESULTS, drawn, newest

RESULT = {
    "date": "2026-11-23",
    "rows": 100_000,
    "cores": 2,
    "publisher_rows_per_s": 40_000,
    "debezium_direct_tuned_rows_per_s": 10_000,
    "raw_produce_rows_per_s": 160_000,
}


def test_bars_are_on_one_scale_and_only_of_what_was_measured():
    picture = drawn(RESULT)
    widths = [int(found) for found in re.findall(r'<rect [^>]*width="(\d+)"', picture)]
    assert widths == [100, 25, 400]
    assert all(f"{rate:,}" in picture for rate in (40_000, 10_000, 160_000))
    assert "function" not in picture


def test_a_result_without_debezium_is_not_drawn(tmp_path):
    for day, found in (("21", RESULT), ("22", {"publisher_rows_per_s": 1})):
        (tmp_path / f"2026-11-{day}-publisher.json").write_text(json.dumps(found))
    assert newest(tmp_path) == RESULT
    with pytest.raises(LookupError, match="publisher --debezium --save"):
        newest(tmp_path / "none")


def test_the_picture_is_of_the_newest_result():
    if not PICTURE.exists():
        pytest.skip("no result with Debezium beside it has been kept yet")
    assert PICTURE.read_text(encoding="utf-8") == drawn(newest(RESULTS))
