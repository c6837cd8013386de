"""The languages of SET LANGUAGE: those of them whose messages are English.

https://learn.microsoft.com/sql/relational-databases/system-compatibility-views/sys-syslanguages-transact-sql
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Language:
    """A row of sys.syslanguages; months and days are the English ones."""

    langid: int
    name: str
    alias: str
    dateformat: str
    datefirst: int
    lcid: int


US_ENGLISH: Final = Language(0, "us_english", "English", "mdy", 7, 1033)
LANGUAGES: Final = (US_ENGLISH, Language(23, "British", "British English", "dmy", 1, 2057))
_OTHERS: Final = frozenset(
    name.casefold()
    for name in (
        "Deutsch", "German", "Français", "French", "日本語", "Japanese", "Dansk", "Danish",
        "Español", "Spanish", "Italiano", "Italian", "Nederlands", "Dutch", "Norsk", "Norwegian",
        "Português", "Portuguese", "Suomi", "Finnish", "Svenska", "Swedish", "čeština", "Czech",
        "magyar", "Hungarian", "polski", "Polish", "română", "Romanian", "hrvatski", "Croatian",
        "slovenčina", "Slovak", "slovenski", "Slovenian", "ελληνικά", "Greek", "български",
        "Bulgarian", "русский", "Russian", "Türkçe", "Turkish", "eesti", "Estonian", "latviešu",
        "Latvian", "lietuvių", "Lithuanian", "Português (Brasil)", "Brazilian", "繁體中文",
        "Traditional Chinese", "한국어", "Korean", "简体中文", "Simplified Chinese", "Arabic",
        "ไทย", "Thai", "norsk (bokmål)", "Bokmål",
    )
)  # fmt: skip
"""Names and aliases of the languages of SQL Server that are refused: messages would be in them."""


def find_language(name: str) -> Language | None:
    """The language of a name or alias, or None."""
    folded = name.casefold()
    return next((each for each in LANGUAGES if folded in _names(each)), None)


def is_refused_language(name: str) -> bool:
    """Whether it is a language of SQL Server that there is not here."""
    return name.casefold() in _OTHERS


def _names(language: Language) -> tuple[str, str]:
    return language.name.casefold(), language.alias.casefold()
