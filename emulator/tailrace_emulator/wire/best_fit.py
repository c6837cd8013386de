"""Best fit: what Windows makes of a character that a code page lacks, before it makes '?' of it.

A letter with a mark becomes the letter, a full-width character its narrow one, a typographic sign
the sign of ASCII that looks like it. Only Latin letters up to U+01F0 have a best fit: Vietnamese
ones and Romanian ones with a comma below become '?'.

https://www.unicode.org/Public/MAPPINGS/VENDORS/MICSFT/WindowsBestFit/
Inferred: that the tables of other code pages have what that of code page 1252 is known to have.
"""

# ruff: noqa: RUF001  # characters that look like others are what this is about

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

_WESTERN: Final = 1252
_LATIN: Final = range(0xC0, 0x1F1)
_FULL_WIDTH: Final = range(0xFF01, 0xFF5F)
_TO_ASCII: Final = 0xFEE0


def _pairs(text: str) -> dict[str, str]:
    """Words of a character and what it becomes, the preferred one first; '_' is a blank."""
    return {word[0]: word[1:] for word in text.split()}


_LETTERS: Final = _pairs(
    "ĐÐD đd ĦH ħh ıi ŁL łl ŦT ŧt ƀb ƉÐD ƑƒF ƗI ƚl ƟO ƫt ƮT ƶz ǀ| ǃ! ǤG ǥg ɡg ØO øo һh"
)
_SIGNS: Final = {
    **_pairs(
        "ʹ' ʺ\" ʼ' ˄^ ˆ^ ˈ' ˋ` ˍ_ ˜~ ‐- ‑- –- —- ‘' ’' ‚, “\" ”\" „\" ′' ‵` ⁄/ ∕/ ∖\\ ∗* ∣| ∶: ∼~"
        " ⌃^ 〈< 〉> 〈< 〉> 《« 》» 〚[ 〛] ⁴4 ⁵5 ⁶6 ⁷7 ⁸8 ⁿn ₀0 ₁1 ₂2 ₃3 ₄4 ₅5 ₆6 ₇7 ₈8 ₉9 −- ・·"
    ),
    **dict.fromkeys("\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u3000", " "),
    "\u0300": "`",
    "\u0302": "^",
    "\u0303": "~",
    "\u030e": '"',
    "\u0331": "_",
    "\u0332": "_",
}
_OF_1252: Final = _pairs(
    "ΓG ΘT ΣS ΦF ΩO αa δd εe πp σs τt φf ℂC ℇE ℊg ℋH ℌH ℍH ℎh ℐI ℑI ℒL ℓl ℕN ℘P ℙP ℚQ ℛR ℜR ℝR ℤZ"
    " ℨZ \u212aK \u212bÅ ℬB ℭC ℮e ℯe ℰE ℱF ℳM ℴo √v ∞8 ∩n ≤= ≥= ≪« ≫» ⋅·"
)


@lru_cache(maxsize=4096)
def best_fit(character: str, page: int) -> str:
    """What may stand for a character, the preferred one first; empty where there is nothing.

    Args:
        character: one that the code page lacks.
        page: number of the code page.
    """
    code = ord(character)
    if code in _FULL_WIDTH:
        return chr(code - _TO_ASCII)
    known = _LETTERS.get(character) or _SIGNS.get(character)
    if known is None and page == _WESTERN:
        known = _OF_1252.get(character)
    if known is None and code in _LATIN:
        base = unicodedata.normalize("NFD", character)[0]
        known = base if base != character else None
    return known or ""
