"""The options of columns: which are published, and how their values are transformed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from tailrace_publisher.errors import ConfigError
from tailrace_service.options.sections import Section, check_patterns

SALT_CHARACTERS_MIN: Final = 8

Characters = Annotated[int, Field(ge=1, le=4_000)]
MaskText = Annotated[str, Field(max_length=200)]


class ColumnsConfig(Section):
    """Which columns are published, and how values are transformed, in snapshot and stream.

    Patterns are regular expressions on schema.table.column, whole name, case-insensitive. Excluded
    columns are not read from the change tables. NULL stays NULL under every transform. A column can
    be masked, truncated or hashed, but only one of them. The key columns of the event and of the
    table can be neither transformed nor left out. A plain name (dbo.customers.email) must be a
    captured column. A changed option starts another schema version with the first change that is
    not published yet. Published events remain as they are.
    """

    include: list[str] = Field(
        default_factory=lambda: [r".*"],
        description="Columns that are published. With other patterns, every table's key columns"
        " must be among them.",
    )
    exclude: list[str] = Field(
        default_factory=list,
        description="Columns that are left out; takes precedence over include.",
    )
    mask: dict[str, MaskText] = Field(
        default_factory=dict,
        description="Pattern to the fixed text that replaces every value, 0 to 200 characters. The"
        " column becomes text, whatever its type at the source. The server replaces the values, so"
        " they are not read.",
    )
    truncate: dict[str, Characters] = Field(
        default_factory=dict,
        description="Pattern to the highest number of characters of every value, 1 to 4000, counted"
        " as nvarchar does; only for text columns. The server cuts the values.",
    )
    hash: list[str] = Field(
        default_factory=list,
        description="Columns whose values are published as SHA-256 of the salt's bytes and the"
        " value's, both UTF-8, in 64 hexadecimal digits; columns of text, integers, decimals and"
        " uniqueidentifier. The same value has the same hash, so they can still be joined.",
    )
    salt: SecretStr | None = Field(
        default=None,
        description="The salt of hashes, at least 8 characters, best from the environment. With"
        " hash, this or salt_file is required. Never logged. Anyone who knows it can try values.",
    )
    salt_file: Path | None = Field(
        default=None,
        description="File whose first line is the salt; read at a start. Another salt is another"
        " schema version.",
    )

    @field_validator("include", "exclude", "hash")
    @classmethod
    def _compile(cls, patterns: list[str]) -> list[str]:
        check_patterns(patterns)
        return patterns

    @field_validator("mask")
    @classmethod
    def _texts(cls, rules: dict[str, str]) -> dict[str, str]:
        check_patterns(rules)
        for pattern, text in rules.items():
            if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
                raise ValueError(f"the text of {pattern!r} holds what is no character")
        return rules

    @field_validator("truncate")
    @classmethod
    def _numbers(cls, rules: dict[str, int]) -> dict[str, int]:
        check_patterns(rules)
        return rules

    @model_validator(mode="after")
    def _one_salt(self) -> Self:
        if self.salt is not None and self.salt_file is not None:
            raise ValueError("salt and salt_file exclude each other. Fix: remove one")
        if self.hash and self.salt is None and self.salt_file is None:
            raise ValueError("hash needs a salt. Fix: set salt (in the environment) or salt_file")
        if self.salt is not None and len(self.salt.get_secret_value()) < SALT_CHARACTERS_MIN:
            raise ValueError(f"salt has fewer than {SALT_CHARACTERS_MIN} characters")
        return self

    @property
    def is_everything(self) -> bool:
        """Whether all columns are published unchanged."""
        return self.include == [".*"] and not (
            self.exclude or self.mask or self.truncate or self.hash
        )

    def read_salt(self) -> str | None:
        """Return the salt, from the option or from its file; None if nothing is hashed.

        Raises:
            ConfigError: the file cannot be read, or holds too few characters.
        """
        if not self.hash:
            return None
        if self.salt is not None or self.salt_file is None:
            return self.salt.get_secret_value() if self.salt else None
        option = f"columns.salt_file {self.salt_file}"
        try:
            lines = self.salt_file.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise ConfigError([f"{option}: the file is not UTF-8 text"]) from error
        except OSError as error:
            raise ConfigError([f"{option}: {error.strerror}. Fix: make it readable"]) from error
        salt = lines[0] if lines else ""
        if len(salt) < SALT_CHARACTERS_MIN:
            raise ConfigError(
                [f"{option}: its first line has fewer than {SALT_CHARACTERS_MIN} characters"]
            )
        return salt
