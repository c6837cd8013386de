"""What the sections of stores and catalogs share: each secret may be in a file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import SecretStr, ValidationError

from tailrace_service.options.sections import SecretUnreadable, Section, problems, read_secret
from tailrace_sink.errors import ConfigError


class LoginSection(Section):
    """A section with secrets: an option ``name`` has a twin ``name_file``.

    Attributes:
        at: the section's name in messages.
    """

    at: ClassVar[str]

    @classmethod
    def load(cls, options: Mapping[str, Any]) -> Self:
        """Validate a mapping of options.

        Raises:
            ConfigError: names every wrong option.
        """
        try:
            return cls.model_validate(dict(options))
        except ValidationError as error:
            raise ConfigError([f"{cls.at}.{problem}" for problem in problems(error, cls)]) from None

    def _read(self, name: str) -> str | None:
        """Return a secret; None if it is not given.

        Raises:
            ConfigError: its file cannot be read.
        """
        secret: SecretStr | None = getattr(self, name)
        file: Path | None = getattr(self, f"{name}_file")
        if secret is not None:
            return secret.get_secret_value()
        if file is None:
            return None
        try:
            return read_secret(f"{self.at}.{name}_file", file)
        except SecretUnreadable as error:
            raise ConfigError([str(error)]) from error
