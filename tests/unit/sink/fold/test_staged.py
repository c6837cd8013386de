"""Nothing of a stopped table is published, whichever of its lake tables somebody else changed."""

from __future__ import annotations

import pytest

from tailrace_sink.errors import LakeRowsChanged
from tailrace_sink.fold.table_batch import Staged


@pytest.mark.parametrize("suffix", ["", ".changes", ".history"])
def test_a_table_is_left_out_with_its_companions(suffix: str):
    versions = {f"shop/dbo/orders{of}": 7 for of in ("", ".changes", ".history")}
    staged = Staged({**versions, "shop/dbo/items": 3}, {})
    error = LakeRowsChanged(f"shop/dbo/orders{suffix}", "version 8: DELETE")
    staged.stop(["shop.dbo.orders"], error)
    assert staged.versions == {"shop/dbo/items": 3}
    assert staged.stopped == {"shop.dbo.orders": error}
