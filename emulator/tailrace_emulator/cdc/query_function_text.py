"""The texts of cdc.fn_cdc_get_all_changes_<instance> and cdc.fn_cdc_get_net_changes_<instance>.

SQL Server generates the query functions as T-SQL that everybody may read; ours run inside the
server (query_functions.py). The texts here are our own. Each says in T-SQL what the function does,
and gives the same rows when it is created under another name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator.cdc.change_table import CLUSTERED_KEY, METADATA_COLUMNS
from tailrace_emulator.cdc.metadata_tables import CDC_SCHEMA
from tailrace_emulator.cdc.query_functions import ALL_CHANGES_PREFIX, NET_CHANGES_PREFIX
from tailrace_emulator.cdc.wrapper_functions import quoted

if TYPE_CHECKING:
    from tailrace_emulator.cdc.capture_instance import CaptureInstance
    from tailrace_emulator.storage.model import Table

_OPTION: Final = "lower(ltrim(rtrim(@row_filter_option)))"
_IN_RANGE: Final = "t.[__$start_lsn] between @from_lsn and @to_lsn"


def query_function_text(instance: CaptureInstance, change_table: Table, *, net: bool) -> str:
    """CREATE FUNCTION of a query function.

    Args:
        net: the net-changes function, which the instance must support.
    """
    captured = [quoted(c.name) for c in change_table.columns[len(METADATA_COLUMNS) : -1]]
    name = f"{NET_CHANGES_PREFIX if net else ALL_CHANGES_PREFIX}{instance.name}"
    shown = ["__$start_lsn", *(() if net else ("__$seqval",)), "__$operation", "__$update_mask"]
    nothing = ", ".join(f"NULL as {column}" for column in (*map(quoted, shown), *captured))
    literal = instance.name.replace("'", "''")
    check = (
        f"[sys].[fn_cdc_check_parameters](N'{literal}', @from_lsn, @to_lsn, {_OPTION}, {int(net)})"
    )
    source = f"{quoted(CDC_SCHEMA)}.{quoted(change_table.name)} as t"
    rows = _net_changes(instance, captured, source) if net else _all_changes(captured, source)
    return (
        f"create function {quoted(CDC_SCHEMA)}.{quoted(name)}\n"
        "\t(@from_lsn binary(10), @to_lsn binary(10), @row_filter_option nvarchar(30))\n"
        "returns table\n"
        "return\n"
        f"\tselect {nothing}\n"
        f"\twhere {check} = 0\n"
        "\tunion all\n"
        f"{rows}"
        f" and {check} = 1\n"
    )


def _all_changes(captured: list[str], source: str) -> str:
    columns = ("[__$start_lsn]", "[__$seqval]", "[__$operation]", "[__$update_mask]", *captured)
    return (
        f"\tselect {_of_t(columns)}\n"
        f"\tfrom {source}\n"
        f"\twhere {_IN_RANGE}\n"
        f"\t\tand (t.[__$operation] <> 3 or {_OPTION} = N'all update old')"
    )


def _net_changes(instance: CaptureInstance, captured: list[str], source: str) -> str:
    key = _of_t([quoted(name) for name in instance.index_columns])
    order = _of_t([quoted(name) for name in CLUSTERED_KEY])
    backwards = order.replace(",", " desc,") + " desc"
    window = f"partition by {key}"
    return (
        "\tselect n.[__$start_lsn],\n"
        "\t\tcase when n.[__$operation] = 1 then 1\n"
        f"\t\t\twhen {_OPTION} = N'all with merge' then 5\n"
        "\t\t\twhen n.[__$first] = 2 or n.[__$count] = 1 then n.[__$first]\n"
        "\t\t\telse 4 end,\n"
        f"\t\tcase when {_OPTION} = N'all with mask' and n.[__$operation] <> 1\n"
        "\t\t\tand n.[__$first] <> 2 then n.[__$union] end,\n"
        f"\t\t{', '.join(f'n.{column}' for column in captured)}\n"
        "\tfrom (\n"
        f"\t\tselect t.[__$start_lsn], t.[__$operation], {_of_t(captured)},\n"
        f"\t\t\trow_number() over ({window} order by {backwards}) as [__$newest],\n"
        f"\t\t\tfirst_value(t.[__$operation]) over ({window} order by {order}) as [__$first],\n"
        f"\t\t\tcount(*) over ({window}) as [__$count],\n"
        f"\t\t\t{_mask_union(len(captured), window)} as [__$union]\n"
        f"\t\tfrom {source}\n"
        f"\t\twhere {_IN_RANGE} and t.[__$operation] <> 3) as n\n"
        "\twhere n.[__$newest] = 1 and not (n.[__$operation] = 1 and n.[__$first] = 2)"
    )


def _mask_union(column_count: int, window: str) -> str:
    """The bits of all masks of a row, byte by byte, the highest first."""
    bits = [
        f"max(cast([sys].[fn_cdc_is_bit_set]({number}, t.[__$update_mask]) as int))"
        f" over ({window}) * {1 << (number - 1) % 8}"
        for number in range(1, column_count + 1)
    ]
    in_bytes = [bits[start : start + 8] for start in range(0, column_count, 8)]
    return " + ".join(f"cast({' + '.join(byte)} as binary(1))" for byte in reversed(in_bytes))


def _of_t(columns: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"t.{column}" for column in columns)
