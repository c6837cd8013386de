"""The samples of README and docs/readers.md run as they are pasted, but for the lake's address."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fix_envelopes import Source, column
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROOT = Path(__file__).parents[2]


def samples(page: str) -> list[str]:
    """The Python blocks of a page that read a lake; the indentation of a list taken away."""
    text = (ROOT / page).read_text("utf-8")
    blocks = re.findall(r"(?ms)^( *)```python\n(.*?)^ *```", text)
    found = [re.sub(rf"(?m)^{indent}", "", block) for indent, block in blocks]
    return [block for block in found if "tailrace_sink" in block]


def test_the_samples_read_a_lake(source: Source, lake: Lake, capsys: pytest.CaptureFixture[str]):
    orders = source.table("orders", column(1, "id", "int", key=1), column(2, "note", "varchar(9)"))
    begins = source.commit(lambda t: t.insert(orders, id=1, note="first"))
    source.commit(lambda t: t.insert(orders, id=2, note="second"))
    source.publish()
    source.commit(lambda t: t.update(orders, (1,), note="third"))
    source.publish()
    lake.catch_up(on_bad_record="dead-letter")
    (readme,) = samples("README.md")
    changes, letters = samples("docs/readers.md")

    told = {}
    for sample in (readme, changes, letters):
        text = sample.replace("s3a://lake/shop", f"{lake.path}/lake")
        text = text.replace("Shop.dbo.orders", "shop.dbo.orders")
        text = text.replace("00000025:00000060:0003", begins)
        exec(compile(text, "sample", "exec"), told)  # noqa: S102 - what users paste

    assert {row.id: row.note for row in told["orders"].collect()} == {1: "third", 2: "second"}
    assert [row._cdc_op for row in told["between"].orderBy("_cdc_position").collect()] == ["c", "u"]
    assert "third" in capsys.readouterr().out
