"""Key values as text that SQL Server converts back."""

from decimal import Decimal

import pytest

from tailrace_publisher.change.instance import CapturedColumn
from tailrace_publisher.snapshot.key_text import key_text
from tailrace_schemas.events.column_types import ColumnType


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("0E-7"), "0.0000000"),
        (Decimal("1E-10"), "0.0000000001"),
        (Decimal("-1.50"), "-1.50"),
        (Decimal("1E+5"), "100000"),
    ],
)
def test_decimals_are_written_without_an_exponent(value: Decimal, text: str):
    column = CapturedColumn(1, "id", 1, ColumnType("decimal"), False, False, True)
    assert key_text(column, value) == text
