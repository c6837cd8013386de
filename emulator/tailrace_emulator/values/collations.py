"""SQL Server's collations by name: locale, flags, code page, and the five bytes on the wire.

A Windows collation is a designator (``Latin1_General_100``), then how it compares
(``CI_AS_KS_WS_SC_UTF8``, ``BIN``, ``BIN2``). A SQL collation (``SQL_...``) has a sort order that
decides its code page.

https://learn.microsoft.com/sql/t-sql/statements/windows-collation-name-transact-sql
https://learn.microsoft.com/sql/t-sql/statements/sql-server-collation-name-transact-sql
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.values.types import DEFAULT_COLLATION
from tailrace_emulator.wire.code_pages import UTF8, CodePage, code_page, locale_code_page

_DESIGNATORS: Final = {
    0: "Albanian=41c Arabic=401 Chinese_PRC=804 Chinese_PRC_Stroke=20804"
    " Chinese_Taiwan_Bopomofo=30404 Chinese_Taiwan_Stroke=404 Croatian=41a Cyrillic_General=419"
    " Czech=405 Danish_Norwegian=406 Estonian=425 Finnish_Swedish=40b French=40c"
    " Georgian_Modern_Sort=10437 German_PhoneBook=10407 Greek=408 Hebrew=40d Hungarian=40e"
    " Hungarian_Technical=1040e Icelandic=40f Japanese=411 Japanese_Unicode=10411"
    " Korean_Wansung=412 Latin1_General=409 Latvian=426 Lithuanian=427 Modern_Spanish=c0a"
    " Polish=415 Romanian=418 Slovak=41b Slovenian=424 Thai=41e Traditional_Spanish=40a"
    " Turkish=41f Ukrainian=422 Vietnamese=42a",
    1: "Azeri_Cyrillic_90=82c Azeri_Latin_90=42c Chinese_Hong_Kong_Stroke_90=c04"
    " Chinese_PRC_90=804 Chinese_PRC_Stroke_90=20804 Chinese_Taiwan_Bopomofo_90=30404"
    " Chinese_Taiwan_Stroke_90=404 Divehi_90=465 Indic_General_90=439 Japanese_90=411"
    " Kazakh_90=43f Korean_90=412 Macedonian_FYROM_90=42f Syriac_90=45a Tatar_90=444"
    " Uzbek_Latin_90=443",
    2: "Albanian_100=41c Arabic_100=401 Assamese_100=44d Azeri_Cyrillic_100=82c"
    " Azeri_Latin_100=42c Bashkir_100=46d Bengali_100=445 Bosnian_Cyrillic_100=201a"
    " Bosnian_Latin_100=141a Breton_100=47e Chinese_Simplified_Pinyin_100=804"
    " Chinese_Simplified_Stroke_Order_100=20804 Chinese_Traditional_Bopomofo_100=30404"
    " Chinese_Traditional_Pinyin_100=1404 Chinese_Traditional_Stroke_Count_100=404"
    " Chinese_Traditional_Stroke_Order_100=21404 Corsican_100=483 Croatian_100=41a"
    " Cyrillic_General_100=419 Czech_100=405 Danish_Greenlandic_100=406 Dari_100=48c"
    " Divehi_100=465 Estonian_100=425 Finnish_Swedish_100=40b French_100=40c Frisian_100=462"
    " Georgian_Modern_Sort_100=10437 German_PhoneBook_100=10407 Greek_100=408 Hebrew_100=40d"
    " Hungarian_100=40e Hungarian_Technical_100=1040e Icelandic_100=40f Indic_General_100=439"
    " Japanese_Bushu_Kakusu_100=40411 Japanese_XJIS_100=411 Kazakh_100=43f Khmer_100=453"
    " Korean_100=412 Lao_100=454 Latin1_General_100=409 Latvian_100=426 Lithuanian_100=427"
    " Macedonian_FYROM_100=42f Maltese_100=43a Maori_100=481 Mapudungan_100=47a"
    " Modern_Spanish_100=c0a Mohawk_100=47c Nepali_100=461 Norwegian_100=414 Pashto_100=463"
    " Persian_100=429 Polish_100=415 Romanian_100=418 Romansh_100=417 Sami_Norway_100=43b"
    " Sami_Sweden_Finland_100=83b Serbian_Cyrillic_100=c1a Serbian_Latin_100=81a Slovak_100=41b"
    " Slovenian_100=424 Syriac_100=45a Tamazight_100=85f Tatar_100=444 Thai_100=41e"
    " Tibetan_100=451 Traditional_Spanish_100=40a Turkish_100=41f Turkmen_100=442 Uighur_100=480"
    " Ukrainian_100=422 Upper_Sorbian_100=42e Urdu_100=420 Uzbek_Latin_100=443"
    " Vietnamese_100=42a Welsh_100=452 Yakut_100=485",
    3: "Japanese_Bushu_Kakusu_140=40411 Japanese_XJIS_140=411",
}
"""Windows designators by version, with their locales in hexadecimal."""

_SQL: Final = (
    "Latin1_General_CP437_BIN=30 Latin1_General_CP437_CS_AS=31 Latin1_General_CP437_CI_AS=32"
    " Latin1_General_Pref_CP437_CI_AS=33 Latin1_General_CP437_CI_AI=34"
    " Latin1_General_CP437_BIN2=35 Latin1_General_CP850_BIN=40 Latin1_General_CP850_CS_AS=41"
    " Latin1_General_CP850_CI_AS=42 Latin1_General_Pref_CP850_CI_AS=43"
    " Latin1_General_CP850_CI_AI=44 Latin1_General_CP850_BIN2=45 1xCompat_CP850_CI_AS=49"
    " Latin1_General_CP1_CS_AS=51 Latin1_General_CP1_CI_AS=52 Latin1_General_Pref_CP1_CI_AS=53"
    " Latin1_General_CP1_CI_AI=54 AltDiction_CP850_CS_AS=55 AltDiction_Pref_CP850_CI_AS=56"
    " AltDiction_CP850_CI_AI=57 Scandinavian_Pref_CP850_CI_AS=58 Scandinavian_CP850_CS_AS=59"
    " Scandinavian_CP850_CI_AS=60 AltDiction_CP850_CI_AS=61 Latin1_General_CP1250_CS_AS=81"
    " Latin1_General_CP1250_CI_AS=82 Czech_CP1250_CS_AS=83 Czech_CP1250_CI_AS=84"
    " Hungarian_CP1250_CS_AS=85 Hungarian_CP1250_CI_AS=86 Polish_CP1250_CS_AS=87"
    " Polish_CP1250_CI_AS=88 Romanian_CP1250_CS_AS=89 Romanian_CP1250_CI_AS=90"
    " Croatian_CP1250_CS_AS=91 Croatian_CP1250_CI_AS=92 Slovak_CP1250_CS_AS=93"
    " Slovak_CP1250_CI_AS=94 Slovenian_CP1250_CS_AS=95 Slovenian_CP1250_CI_AS=96"
    " Latin1_General_CP1251_CS_AS=105 Latin1_General_CP1251_CI_AS=106"
    " Ukrainian_CP1251_CS_AS=107 Ukrainian_CP1251_CI_AS=108 Latin1_General_CP1253_CS_AS=113"
    " Latin1_General_CP1253_CI_AS=114 MixDiction_CP1253_CS_AS=120 AltDiction_CP1253_CS_AS=121"
    " AltDiction2_CP1253_CS_AS=122 Latin1_General_CP1253_CI_AI=124"
    " Latin1_General_CP1254_CS_AS=129 Latin1_General_CP1254_CI_AS=130"
    " Latin1_General_CP1255_CS_AS=137 Latin1_General_CP1255_CI_AS=138"
    " Latin1_General_CP1256_CS_AS=145 Latin1_General_CP1256_CI_AS=146"
    " Latin1_General_CP1257_CS_AS=153 Latin1_General_CP1257_CI_AS=154 Estonian_CP1257_CS_AS=155"
    " Estonian_CP1257_CI_AS=156 Latvian_CP1257_CS_AS=157 Latvian_CP1257_CI_AS=158"
    " Lithuanian_CP1257_CS_AS=159 Lithuanian_CP1257_CI_AS=160 Danish_Pref_CP1_CI_AS=183"
    " SwedishPhone_Pref_CP1_CI_AS=184 SwedishStd_Pref_CP1_CI_AS=185"
    " Icelandic_Pref_CP1_CI_AS=186 EBCDIC037_CP1_CS_AS=210 EBCDIC273_CP1_CS_AS=211"
    " EBCDIC277_CP1_CS_AS=212 EBCDIC278_CP1_CS_AS=213 EBCDIC280_CP1_CS_AS=214"
    " EBCDIC284_CP1_CS_AS=215 EBCDIC285_CP1_CS_AS=216 EBCDIC297_CP1_CS_AS=217"
)
"""SQL collations without their ``SQL_``, with their sort ids."""

_SQL_LOCALES: Final = {
    "Czech": 0x405, "Hungarian": 0x40E, "Polish": 0x415, "Romanian": 0x418, "Croatian": 0x41A,
    "Slovak": 0x41B, "Slovenian": 0x424, "Ukrainian": 0x422, "MixDiction": 0x408,
    "AltDiction2": 0x408, "Estonian": 0x425, "Latvian": 0x426, "Lithuanian": 0x427,
    "Danish": 0x406, "SwedishPhone": 0x41D, "SwedishStd": 0x41D, "Icelandic": 0x40F,
}  # fmt: skip
"""Locales that the name of a SQL collation contains; the others go by their code page."""

_PAGE_LOCALES: Final = {1250: 0x409, 1251: 0x419, 1253: 0x408, 1254: 0x41F, 1255: 0x40D,
                        1256: 0x401, 1257: 0x425}  # fmt: skip
_UNICODE_ONLY: Final = frozenset(
    {"Assamese", "Bengali", "Divehi", "Indic_General", "Khmer", "Lao", "Maltese", "Maori",
     "Nepali", "Pashto", "Syriac", "Tibetan"}
)  # fmt: skip
_WINDOWS: Final = {
    word.partition("=")[0].casefold(): (word.partition("=")[0], int(word.partition("=")[2], 16), v)
    for v, words in _DESIGNATORS.items()
    for word in words.split()
}
_SQL_SORT_IDS: Final = {
    word.partition("=")[0].casefold(): (word.partition("=")[0], int(word.partition("=")[2]))
    for word in _SQL.split()
}
_STYLE: Final = re.compile(
    r"(?P<designator>.+?)_(?:(?P<binary>BIN2?)|(?P<case>C[IS])_(?P<accent>A[IS])(?P<kana>_KS)?"
    r"(?P<width>_WS)?)(?P<supplementary>_SC)?(?P<variation>_VSS)?(?P<utf8>_UTF8)?\Z",
    re.IGNORECASE,
)

_IGNORE_CASE: Final = 1 << 20
_IGNORE_ACCENT: Final = 1 << 21
_IGNORE_KANA: Final = 1 << 22
_IGNORE_WIDTH: Final = 1 << 23
_BINARY: Final = 1 << 24
_BINARY2: Final = 1 << 25
_UTF8: Final = 1 << 26
_VERSION_SHIFT: Final = 28


@dataclass(frozen=True, slots=True)
class Collation:
    """A collation.

    Attributes:
        name: as SQL Server spells it.
        lcid: the number of its Windows locale.
        page: number of the code page of char and varchar; 0 where it has none.
        version: 0, 1 (90), 2 (100) or 3 (140).
        sort_id: of SQL collations, else 0.
        binary: 0, 1 (BIN) or 2 (BIN2).
    """

    name: str
    lcid: int
    page: int
    version: int = 0
    sort_id: int = 0
    binary: int = 0
    ignores_case: bool = False
    ignores_accents: bool = False
    ignores_kana: bool = False
    ignores_width: bool = False

    @property
    def code_page(self) -> CodePage:
        """The code page of char and varchar; 1252 where the collation has none."""
        return code_page(self.page or 1252)

    @property
    def wire(self) -> bytes:
        """The five bytes of MS-TDS 2.2.5.1.2."""
        info = self.lcid | self.version << _VERSION_SHIFT
        flags = (
            (self.ignores_case, _IGNORE_CASE),
            (self.ignores_accents, _IGNORE_ACCENT),
            (self.ignores_kana, _IGNORE_KANA),
            (self.ignores_width, _IGNORE_WIDTH),
            (self.binary == 1, _BINARY),
            (self.binary == 2, _BINARY2),
            (self.page == UTF8, _UTF8),
        )
        for is_set, flag in flags:
            info |= flag if is_set else 0
        return info.to_bytes(4, "little") + bytes((self.sort_id,))

    @property
    def comparison_style(self) -> int:
        """COLLATIONPROPERTY(.., 'ComparisonStyle'): flags of CompareString; 0 for binary ones."""
        return (
            self.ignores_case * 1
            | self.ignores_accents * 2
            | self.ignores_kana * 0x10000
            | self.ignores_width * 0x20000
        )

    @property
    def description(self) -> str:
        """As sys.fn_helpcollations describes it."""
        shown = self.name.removeprefix("SQL_")
        found = _STYLE.fullmatch(shown)
        designator = (found["designator"] if found else shown).replace("_", "-")
        if self.sort_id:
            designator = re.sub(r"-(Pref-)?CP\d+\Z", "", designator, flags=re.IGNORECASE)
        if self.binary:
            kind = "binary sort" if self.binary == 1 else "binary code point comparison sort"
            return f"{designator}, {kind}" + (", UTF8" if self.page == UTF8 else "")
        words = [
            designator,
            f"case-{_sensitivity(not self.ignores_case)}",
            f"accent-{_sensitivity(not self.ignores_accents)}",
            f"kanatype-{_sensitivity(not self.ignores_kana)}",
            f"width-{_sensitivity(not self.ignores_width)}",
        ]
        if _is_supplementary(self.name.upper()):
            words.append("supplementary characters")
        if self.page == UTF8:
            words.append("UTF8")
        text = ", ".join(words)
        if self.sort_id:
            text += (
                f" for Unicode Data, SQL Server Sort Order {self.sort_id} on Code Page"
                f" {self.page} for non-Unicode Data"
            )
        return text


def counts_characters(name: str | None) -> bool:
    """Whether LEN counts a supplementary character as one: _SC collations, and version 140."""
    folded = (name or "").upper()
    return _is_supplementary(folded) or "_140_" in folded


def _is_supplementary(folded: str) -> bool:
    """Whether an upper-cased name has the option _SC; SQL_Scandinavian has not."""
    return folded.endswith("_SC") or "_SC_" in folded


def _sensitivity(sensitive: bool) -> str:
    return "sensitive" if sensitive else "insensitive"


@lru_cache(maxsize=1024)
def find_collation(name: str) -> Collation | None:
    """The collation of that name, in any case; None where there is none."""
    if name[:4].upper() == "SQL_":
        return _sql_collation(name[4:])
    found = _STYLE.fullmatch(name)
    known = _WINDOWS.get(found["designator"].casefold()) if found else None
    if found is None or known is None:
        return None
    designator, lcid, version = known
    utf8, supplementary = bool(found["utf8"]), bool(found["supplementary"])
    unicode_only = designator.rpartition("_")[0] in _UNICODE_ONLY and version > 0
    if found["binary"]:
        binary = 2 if found["binary"].upper() == "BIN2" else 1
        utf8_allowed = designator == "Latin1_General_100" and binary == 2
        refused = supplementary or bool(found["variation"]) or (utf8 and not utf8_allowed)
    else:
        binary = 0
        refused = (
            (supplementary and version not in {1, 2})
            or (bool(found["variation"]) and version != 3)
            or (utf8 and not (supplementary or version == 3))
        )
    if refused:
        return None
    page = UTF8 if utf8 else 0 if unicode_only else locale_code_page(lcid)
    suffix = name[len(designator) :].upper()
    if binary:
        return Collation(designator + suffix, lcid, page, version, binary=binary)
    return Collation(
        designator + suffix,
        lcid,
        page,
        version,
        ignores_case=found["case"].upper() == "CI",
        ignores_accents=found["accent"].upper() == "AI",
        ignores_kana=not found["kana"],
        ignores_width=not found["width"],
    )


def _sql_collation(name: str) -> Collation | None:
    """A SQL collation, without its ``SQL_``."""
    known = _SQL_SORT_IDS.get(name.casefold())
    if known is None:
        return None
    spelled, sort_id = known
    number = int(re.search(r"CP(\d+)_", spelled)[1])  # type: ignore[index]  # every one has it
    page = 1252 if number == 1 else number
    words = spelled.split("_")
    lcid = _SQL_LOCALES.get(words[0]) or _PAGE_LOCALES.get(page, 0x409)
    style = spelled.upper()
    if "_BIN" in style:
        return Collation(
            f"SQL_{spelled}", lcid, page, 0, sort_id, binary=2 if style.endswith("BIN2") else 1
        )
    return Collation(
        f"SQL_{spelled}",
        lcid,
        page,
        0,
        sort_id,
        ignores_case="_CI_" in style,
        ignores_accents=style.endswith("_AI"),
        ignores_kana=True,
        ignores_width=True,
    )


@lru_cache(maxsize=1024)
def collation(name: str | None) -> Collation:
    """The collation of that name; None is the server's.

    Raises:
        SqlError: 448 when there is none.
    """
    found = find_collation(name or DEFAULT_COLLATION)
    if found is None:
        raise messages.error(448, name)
    return found


LIKE_SENSITIVE: Final = 1
LIKE_ACCENTLESS: Final = 2
LIKE_UNICODE: Final = 4
"""For LIKE: trailing blanks of Unicode text count."""


def search_flags(name: str | None) -> int:
    """How LIKE, CHARINDEX and their kin compare: LIKE_SENSITIVE and LIKE_ACCENTLESS."""
    found = collation(name)
    flags = 0 if found.ignores_case else LIKE_SENSITIVE
    return flags | (LIKE_ACCENTLESS if found.ignores_accents else 0)


def page_of(name: str | None) -> CodePage:
    """The code page of a collation's char and varchar."""
    return collation(name).code_page


def all_collations() -> Iterator[Collation]:
    """Every collation, as sys.fn_helpcollations lists them."""
    styles = [f"{c}_{a}{k}{w}" for c in ("CI", "CS") for a in ("AI", "AS")
              for k in ("", "_KS") for w in ("", "_WS")]  # fmt: skip
    names = [f"{designator}_{binary}" for designator, _, _ in _WINDOWS.values()
             for binary in ("BIN", "BIN2")]  # fmt: skip
    names += ["Latin1_General_100_BIN2_UTF8"]
    for designator, _, version in _WINDOWS.values():
        endings = {0: ("",), 1: ("", "_SC"), 2: ("", "_SC", "_SC_UTF8"),
                   3: ("", "_VSS", "_UTF8", "_VSS_UTF8")}[version]  # fmt: skip
        names += [f"{designator}_{style}{ending}" for style in styles for ending in endings]
    names += [f"SQL_{spelled}" for spelled, _ in _SQL_SORT_IDS.values()]
    for name in sorted(names, key=str.casefold):
        found = find_collation(name)
        if found is not None:
            yield found
