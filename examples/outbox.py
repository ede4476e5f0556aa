"""Jobs in your own transaction: an order and the job that ships it are stored together or not at all.

rota migrate --outbox "$ROTA_OUTBOX_URL"      # once: installs rota_enqueue in the application's database
rota outbox relay                             # beside the application: creates the jobs of what was committed
python examples/outbox.py                     # the application
"""

import os

import psycopg
from psycopg.types.json import Jsonb

ORDERS = "CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY, item text NOT NULL, amount int)"
ENQUEUE = """
SELECT rota_enqueue('ship', %(payload)s, queue => 'shipping', labels => %(labels)s, ordering_key => %(key)s)
"""


def place_order(conn: psycopg.Connection, item: str, amount: int) -> int:
    """Stores an order and its job, in one transaction. Whatever raises takes both back."""
    with conn.transaction():
        row = conn.execute("INSERT INTO orders (item, amount) VALUES (%s, %s) RETURNING id", (item, amount)).fetchone()
        order = row[0]
        payload, labels = Jsonb({"order": order, "item": item}), Jsonb({"order": str(order)})
        conn.execute(ENQUEUE, {"payload": payload, "labels": labels, "key": f"item-{item}"})
        if amount <= 0:
            raise ValueError(f"expected an amount, found {amount}")
    return order


def main() -> None:
    with psycopg.connect(os.environ["ROTA_OUTBOX_URL"], autocommit=True) as conn:
        conn.execute(ORDERS)
        for item, amount in (("lamp", 1), ("chair", 0), ("table", 2)):
            try:
                print(f"order {place_order(conn, item, amount)}: {item}, to be shipped")
            except ValueError as error:
                print(f"no order, and no job: {item}: {error}")


if __name__ == "__main__":
    main()
