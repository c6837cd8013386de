"""Options of the layout of new lake tables."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field


class Profile(StrEnum):
    """Goal of the layout: speed, or readers that know few features of Delta."""

    FAST = "fast"
    COMPATIBLE = "compatible"


PartitionByOption = Annotated[
    dict[str, list[str]],
    Field(
        description="schema.table to the columns a new lake table is partitioned by.",
    ),
]
ClusterByOption = Annotated[
    dict[str, list[str]],
    Field(
        description="schema.table to the columns a new lake table is clustered by (liquid"
        " clustering, at most four; takes effect with OPTIMIZE).",
    ),
]
ProfileOption = Annotated[
    Profile,
    Field(
        description="fast (default): new tables have deletion vectors, so a change does not rewrite"
        " files. Column mapping or type widening is added when a rename, a name that Parquet does"
        " not allow, or a wider type needs it. compatible: none of the three, for readers that do"
        " not know them. A table whose source needs one stops until a new snapshot replaces it."
        " docs/readers.md lists which reader opens what.",
    ),
]
RewriteBelowBytesOption = Annotated[
    int,
    Field(
        ge=0,
        le=1_073_741_824,
        description="Size of a table up to which files with changed rows are rewritten, even with"
        " deletion vectors. Of a larger table only the smallest such files are rewritten, together"
        " up to this size. 0 to 1073741824 (1 GiB), default 131072 (128 KiB). Lower: more small"
        " files. Higher: each retained version is a larger copy. 0 always uses deletion vectors.",
    ),
]
