"""Grammar of logins, users, roles, permissions and EXECUTE AS."""

from __future__ import annotations

from typing import Final

from emulator.errors import not_supported
from emulator.tsql.syntax.nodes import Expression, Name
from emulator.tsql.syntax.parse_data import DataParser
from emulator.tsql.syntax.security_statements import (
    AlterAuthorization,
    AlterPrincipal,
    AlterRole,
    CreatePrincipal,
    DropPrincipal,
    ExecuteAs,
    Permissions,
    Revert,
)
from emulator.tsql.syntax.statements import Statement
from emulator.tsql.syntax.tokens import Kind

_FLAGS: Final = frozenset({"MUST_CHANGE", "UNLOCK", "HASHED"})
_CLASSES: Final = frozenset({"OBJECT", "SCHEMA", "DATABASE", "USER", "ROLE", "LOGIN", "SERVER"})


class SecurityParser(DataParser):
    """Statements about who may do what."""

    def create_principal(self, line: int) -> Statement:
        """CREATE USER, ROLE or LOGIN."""
        kind = self.advance().upper
        name = self.identifier()
        login, without_login, owner = None, False, None
        if kind == "LOGIN" and self.accept("FROM"):
            raise not_supported(f"CREATE LOGIN ... FROM {self.token.text.upper()}")
        if kind == "USER":
            if self.accept_any("FOR", "FROM"):
                if not self.accept("LOGIN"):
                    raise not_supported(f"CREATE USER ... FOR {self.token.text.upper()}")
                login = self.identifier()
            without_login = self.accept("WITHOUT", "LOGIN")
        elif kind == "ROLE" and self.accept("AUTHORIZATION"):
            owner = self.identifier()
        options = self._options() if self.accept("WITH") else {}
        return CreatePrincipal(kind, name, login, without_login, owner, options, line=line)

    def alter_principal(self, line: int) -> Statement:
        """ALTER [SERVER] ROLE, USER, LOGIN or AUTHORIZATION."""
        kind = self.advance().upper
        if kind == "AUTHORIZATION":
            return self._authorization(line)
        server = kind == "SERVER"
        if server:
            if not self.accept("ROLE"):
                raise not_supported(f"ALTER SERVER {self.token.text.upper()}")
            kind = "ROLE"
        name = self.identifier()
        if kind == "ROLE":
            action = self.accept_any("ADD", "DROP")
            if action is not None:
                self.expect("MEMBER")
                return AlterRole(name, action, self.identifier(), server, line=line)
        elif kind == "LOGIN":
            switch = self.accept_any("ENABLE", "DISABLE")
            if switch is not None:
                return AlterPrincipal(kind, name, {switch: "ON"}, line=line)
        if server or not self.accept("WITH"):
            self.fail()
        return AlterPrincipal(kind, name, self._options(), line=line)

    def drop_principal(self, kind: str, line: int) -> Statement:
        """DROP USER, ROLE or LOGIN, after its kind."""
        if_exists = self.accept("IF", "EXISTS")
        return DropPrincipal(kind, self.identifier(), if_exists, line=line)

    def _options(self) -> dict[str, str]:
        """``NAME = value [FLAG] , ...``."""
        options: dict[str, str] = {}
        while True:
            if self.token.kind is not Kind.WORD:
                self.fail()
            name = self.advance().upper
            self.expect("=")
            token = self.token
            if token.kind in {Kind.END, Kind.OPERATOR}:
                self.fail()
            if name.endswith("PASSWORD") and token.kind is Kind.BINARY:
                raise not_supported("a hashed password (PASSWORD = 0x...)")
            options[name] = self.advance().text
            while self.token.upper in _FLAGS:
                options[self.advance().upper] = "ON"
            if self.token.upper == "OLD_PASSWORD":
                continue
            if not self.accept(","):
                return options

    def _authorization(self, line: int) -> Statement:
        """``ON [class::]name TO principal | SCHEMA OWNER``."""
        self.expect("ON")
        securable_class, name = self._securable()
        self.expect("TO")
        if self.accept("SCHEMA", "OWNER"):
            return AlterAuthorization(securable_class, name, None, line=line)
        return AlterAuthorization(securable_class, name, self.identifier(), line=line)

    def _securable(self) -> tuple[str, Name]:
        """``[class::]name``."""
        if self.ahead().text == "::":
            found = self.token.upper
            if found not in _CLASSES:
                raise not_supported(f"permissions and owners of class {self.token.text.upper()}")
            self.position += 2
            return found, self.dotted_name()
        return "OBJECT", self.dotted_name()

    # GRANT, DENY, REVOKE ------------------------------------------------------------------------

    def permission_statement(self) -> Statement:
        """GRANT, DENY or REVOKE."""
        token = self.advance()
        action = token.upper
        grant_option = action == "REVOKE" and self.accept("GRANT", "OPTION", "FOR")
        permissions = [self._permission()]
        while self.accept(","):
            permissions.append(self._permission())
        securable_class: str = ""
        name: Name = ()
        if self.accept("ON"):
            securable_class, name = self._securable()
            if self.at("("):
                named = self.name_list()
                permissions = [(permission, (*own, *named)) for permission, own in permissions]
        if not (self.accept("TO") or (action == "REVOKE" and self.accept("FROM"))):
            self.fail()
        principals = [self._grantee()]
        while self.accept(","):
            principals.append(self._grantee())
        if action == "GRANT" and self.accept("WITH"):
            self.expect("GRANT", "OPTION")
            grant_option = True
        cascade = action != "GRANT" and self.accept("CASCADE")
        if self.at("AS"):
            raise not_supported(f"{action} ... AS another grantor")
        return Permissions(
            action,
            tuple(permissions),
            securable_class,
            name,
            tuple(principals),
            grant_option,
            cascade,
            line=token.line,
        )

    def _grantee(self) -> str:
        """A principal; PUBLIC is a reserved word."""
        return self.advance().text if self.at("PUBLIC") else self.identifier()

    def _permission(self) -> tuple[str, tuple[str, ...]]:
        """``SELECT [(columns)]``, ``VIEW DATABASE STATE``, ``ALL [PRIVILEGES]``."""
        words: list[str] = []
        while self.token.kind is Kind.WORD and not self.at_any("ON", "TO", "FROM"):
            words.append(self.advance().upper)
        if not words:
            self.fail()
        columns = self.name_list() if self.at("(") else ()
        name = " ".join(words)
        if name == "ALL PRIVILEGES":
            name = "ALL"
        return {"EXEC": "EXECUTE"}.get(name, name), columns

    # EXECUTE AS ---------------------------------------------------------------------------------

    def impersonated(self) -> Expression:
        """The name after ``USER =``; the control grammar provides it."""
        raise NotImplementedError

    def execute_as(self, line: int) -> Statement:
        """``EXECUTE AS USER = 'u'``, from AS on."""
        self.expect("AS")
        kind = self.advance().upper
        name = None
        if kind != "CALLER":
            self.expect("=")
            name = self.impersonated()
        if self.accept("WITH"):
            raise not_supported(f"EXECUTE AS ... WITH {self.token.text.upper()}")
        return ExecuteAs(kind, name, line=line)

    def revert(self) -> Statement:
        """REVERT."""
        line = self.advance().line
        if self.accept("WITH"):
            raise not_supported("REVERT WITH COOKIE")
        return Revert(line=line)
