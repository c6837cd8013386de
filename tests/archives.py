"""Archives that tests unpack."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive; without owners and modes where Python knows that filter.

    Python 3.11 has it since 3.11.4.
    """
    with tarfile.open(archive) as opened:
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(folder)  # noqa: S202 - the archives are ours
