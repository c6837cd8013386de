"""How new lake tables are laid out, and what for."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field


class Profile(StrEnum):
    """What a new lake table is made for."""

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
        description="fast (default): new tables have deletion vectors, so that a change does not"
        " rewrite files, and get column mapping or type widening when a rename, a name that Parquet"
        " does not take, or a wider type first needs them. compatible: none of the three, for"
        " readers that do not know them; a table whose source needs one stops by name until a new"
        " snapshot makes it anew. docs/readers.md has which reader opens what.",
    ),
]
RewriteBelowBytesOption = Annotated[
    int,
    Field(
        ge=0,
        le=1_073_741_824,
        description="Size of a table up to which files with changed rows are written anew, though"
        " it has deletion vectors: one file instead of one more with each batch, but every version"
        " kept is a whole copy. Of a larger table the smallest of these files, together up to that"
        " size, where the changes are few; 0 to 1073741824 (1 GiB), default 131072 (128 KiB). 0"
        " always takes deletion vectors.",
    ),
]
