"""SQLAlchemy's dialect mssql+pyodbc: tables made, reflected, and used through the ORM."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from emulator.tests.clients.conftest import Source

naive = datetime.datetime.fromisoformat


class Base(orm.DeclarativeBase):
    """The mapped classes of these tests."""


class Customer(Base):
    __tablename__ = "alchemy_customer"
    __table_args__ = ({"schema": "dbo", "comment": "who buys"},)

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.Unicode(40), index=True, comment="as spelt")
    born: orm.Mapped[datetime.date | None]
    orders: orm.Mapped[list[Order]] = orm.relationship(back_populates="customer", cascade="all")


class Order(Base):
    __tablename__ = "alchemy_order"
    __table_args__ = (
        sa.UniqueConstraint("customer_id", "number", name="ux_alchemy_order"),
        sa.CheckConstraint("total >= 0", name="ck_alchemy_order"),
        {"schema": "dbo"},
    )

    id: orm.Mapped[int] = orm.mapped_column(sa.Identity(start=100), primary_key=True)
    customer_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey(Customer.id))
    number: orm.Mapped[int]
    total: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(18, 4))
    placed: orm.Mapped[datetime.datetime] = orm.mapped_column(server_default=sa.func.sysdatetime())
    document: orm.Mapped[str | None] = orm.mapped_column(sa.UnicodeText)
    picture: orm.Mapped[bytes | None] = orm.mapped_column(sa.LargeBinary)
    paid: orm.Mapped[bool] = orm.mapped_column(default=False)
    customer: orm.Mapped[Customer] = orm.relationship(back_populates="orders")


@pytest.fixture(scope="module")
def engine(source: Source) -> Iterator[sa.Engine]:
    """An engine whose tables exist; fast_executemany as most users have it."""
    url = sa.URL.create(
        "mssql+pyodbc", query={"odbc_connect": source.emulator.connection_string(source.database)}
    )
    made = sa.create_engine(url, fast_executemany=True)
    Base.metadata.create_all(made)
    yield made
    Base.metadata.drop_all(made)
    made.dispose()


@pytest.fixture
def session(engine: sa.Engine) -> Iterator[orm.Session]:
    """A session whose rows are gone afterwards."""
    with orm.Session(engine) as opened:
        yield opened
        opened.rollback()
        opened.execute(sa.delete(Order))
        opened.execute(sa.delete(Customer))
        opened.commit()


def test_create_all_finds_what_is_there(engine: sa.Engine):
    Base.metadata.create_all(engine)
    assert sa.inspect(engine).has_table("alchemy_order", schema="dbo")
    assert not sa.inspect(engine).has_table("alchemy_nothing", schema="dbo")


def test_reflection(engine: sa.Engine):
    metadata = sa.MetaData()
    table = sa.Table("alchemy_order", metadata, schema="dbo", autoload_with=engine)
    kinds = {column.name: str(column.type) for column in table.columns}
    assert kinds == {
        "id": "INTEGER",
        "customer_id": "INTEGER",
        "number": "INTEGER",
        "total": "NUMERIC(18, 4)",
        "placed": "DATETIME",
        "document": 'NVARCHAR COLLATE "SQL_Latin1_General_CP1_CI_AS"',
        "picture": "VARBINARY",
        "paid": "BIT",
    }
    assert [column.name for column in table.primary_key] == ["id"]
    (foreign,) = table.foreign_keys
    assert foreign.target_fullname == "dbo.alchemy_customer.id"
    assert table.c.id.identity is not None
    assert table.c.id.identity.start == 100
    assert not table.c.total.nullable
    assert table.c.document.nullable
    assert "sysdatetime" in str(table.c.placed.server_default.arg).lower()


def test_inspection(engine: sa.Engine):
    inspector = sa.inspect(engine)
    assert {"alchemy_customer", "alchemy_order", "Tracked"} <= set(inspector.get_table_names("dbo"))
    assert "dbo" in inspector.get_schema_names()
    (unique,) = [
        index
        for index in inspector.get_indexes("alchemy_order", "dbo")
        if index["name"] == "ux_alchemy_order"
    ]
    assert unique["unique"]
    assert unique["column_names"] == ["customer_id", "number"]
    names = [index["name"] for index in inspector.get_indexes("alchemy_customer", "dbo")]
    assert names == ["ix_dbo_alchemy_customer_name"]
    (foreign,) = inspector.get_foreign_keys("alchemy_order", "dbo")
    assert (foreign["referred_table"], foreign["constrained_columns"]) == (
        "alchemy_customer",
        ["customer_id"],
    )
    assert inspector.get_table_comment("alchemy_customer", "dbo") == {"text": "who buys"}
    columns = inspector.get_columns("alchemy_customer", "dbo")
    assert {column["name"]: column["comment"] for column in columns} == {
        "id": None,
        "name": "as spelt",
        "born": None,
    }


def test_orm_round_trip(engine: sa.Engine, session: orm.Session):
    order = Order(
        number=1, total=decimal.Decimal("12.3456"), document="日本 🎉" * 2000, picture=b"\x00\xff"
    )
    session.add(Customer(name="Žofie", born=datetime.date(1999, 12, 31), orders=[order]))
    session.commit()
    assert order.id >= 100
    with orm.Session(engine) as other:
        query = (
            sa.select(Customer)
            .options(orm.selectinload(Customer.orders))
            .where(Customer.name.like("Ž%"), Customer.orders.any(Order.total > 12))
        )
        found = other.scalars(query).one()
        (bought,) = found.orders
        assert (found.name, found.born) == ("Žofie", datetime.date(1999, 12, 31))
        assert (bought.total, bought.paid) == (decimal.Decimal("12.3456"), False)
        assert (bought.document, bought.picture) == ("日本 🎉" * 2000, b"\x00\xff")
        assert bought.placed > naive("2020-01-01")
        bought.paid = True
        found.name = "Zoe"
        other.commit()
    session.expire_all()
    assert session.scalars(sa.select(Customer.name)).all() == ["Zoe"]
    session.delete(session.scalars(sa.select(Customer)).one())
    session.commit()
    assert session.scalar(sa.select(sa.func.count()).select_from(Order)) == 0


def test_many_rows_and_pages(session: orm.Session):
    session.add_all(Customer(name=f"n{number:03}") for number in range(200))
    session.commit()
    page = sa.select(Customer.name).order_by(Customer.name).offset(50).limit(3)
    assert session.scalars(page).all() == ["n050", "n051", "n052"]
    session.execute(sa.insert(Customer), [{"name": f"m{number}"} for number in range(300)])
    session.commit()
    count = sa.select(sa.func.count()).select_from(Customer)
    assert session.scalar(count) == 500
    session.execute(sa.update(Customer).where(Customer.name < "n").values(born=None))
    session.execute(sa.delete(Customer).where(Customer.name.startswith("m")))
    assert session.scalar(count) == 200


def test_savepoint_and_rollback(session: orm.Session):
    session.add(Customer(name="stays"))
    with pytest.raises(sa.exc.IntegrityError), session.begin_nested():
        session.execute(sa.insert(Order).values(customer_id=-1, number=1, total=0))
    session.commit()
    session.add(Customer(name="goes"))
    session.flush()
    session.rollback()
    assert session.scalars(sa.select(Customer.name)).all() == ["stays"]


def test_errors_have_their_numbers(session: orm.Session):
    session.add(Customer(name="one", orders=[Order(number=1, total=1)]))
    session.commit()
    owner = session.scalars(sa.select(Customer.id)).one()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"customer_id": owner, "number": 1, "total": 1}, "2627"),
        ({"customer_id": owner, "number": 2, "total": -1}, "547"),
    ]
    for values, number in wrong:
        with pytest.raises(sa.exc.IntegrityError, match=rf"\({number}\)"):
            session.execute(sa.insert(Order).values(**values))
        session.rollback()


def test_isolation_level(engine: sa.Engine):
    with engine.connect().execution_options(isolation_level="SERIALIZABLE") as connection:
        assert connection.get_isolation_level() == "SERIALIZABLE"


def test_the_pool_hands_a_clean_connection_on(engine: sa.Engine):
    with engine.connect() as connection:
        connection.execute(sa.text("INSERT INTO dbo.alchemy_customer (name) VALUES (N'lost')"))
    with engine.connect() as connection:
        query = sa.text("SELECT COUNT(*) FROM dbo.alchemy_customer WHERE name = N'lost'")
        assert connection.scalar(query) == 0
        assert connection.scalar(sa.text("SELECT @@TRANCOUNT")) == 1


def test_reading_a_cdc_function(engine: sa.Engine):
    query = sa.text(
        "SELECT __$operation, id, name FROM cdc.fn_cdc_get_all_changes_dbo_Tracked("
        "sys.fn_cdc_get_min_lsn(:instance), sys.fn_cdc_get_max_lsn(), N'all')"
    )
    with engine.connect() as connection:
        found = connection.execute(query, {"instance": "dbo_Tracked"}).all()
    assert found == [(2, 1, "één"), (2, 2, "zwei"), (4, 1, "Один"), (1, 2, "zwei")]
