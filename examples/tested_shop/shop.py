"""A small application on SQL Server: orders and the money that customers still have."""

from decimal import Decimal

import pyodbc

SCHEMA = (
    "CREATE TABLE dbo.customers (customer_id int NOT NULL PRIMARY KEY, name nvarchar(40) NOT NULL,"
    " balance decimal(10, 2) NOT NULL)",
    "CREATE TABLE dbo.orders (order_id int IDENTITY(1, 1) NOT NULL PRIMARY KEY,"
    " customer_id int NOT NULL, amount decimal(10, 2) NOT NULL)",
)


class NotEnoughMoney(Exception):
    """The order costs more than the customer has."""


def order(connection: pyodbc.Connection, customer_id: int, amount: Decimal) -> None:
    """Place an order; it and the payment are one transaction, or neither happens."""
    connection.autocommit = False
    try:
        connection.execute(
            "INSERT INTO dbo.orders (customer_id, amount) VALUES (?, ?)", customer_id, amount
        )
        paid = connection.execute(
            "UPDATE dbo.customers SET balance = balance - ? WHERE customer_id = ? AND balance >= ?",
            amount,
            customer_id,
            amount,
        )
        if paid.rowcount != 1:
            raise NotEnoughMoney(f"customer {customer_id} cannot pay {amount}")
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    finally:
        connection.autocommit = True
