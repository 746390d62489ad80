"""A support desk: an agent that looks orders up, and refunds each one at most once."""

import os
from pathlib import Path

import upshot

# The journal stores every run. It can also be a database: postgresql://HOST/NAME
JOURNAL = os.environ.get("DESK_JOURNAL", "desk.db")
# Without a model, a script answers, so that you can try everything without a key.
MODEL = os.environ.get("DESK_MODEL") or upshot.ScriptedModel(
    [upshot.ToolCall("1", "order", {"order_id": "7"}), "Order 7 has been shipped."] * 1000
)
PAYMENTS = Path("payments.txt")
ORDERS = {"7": ("shipped", 2_000), "8": ("being packed", 12_000)}


@upshot.tool(effect="read")
def order(order_id: str) -> str:
    """Say what an order cost, in cents, and where it is."""
    if order_id not in ORDERS:
        raise upshot.ToolError(f"there is no order {order_id}")
    state, cents = ORDERS[order_id]
    return f"{cents} cents, {state}"


def was_paid(unknown: upshot.UnknownEffect) -> bool:
    """Say whether a refund was paid, after its process died or its answer was lost."""
    paid = PAYMENTS.read_text().split() if PAYMENTS.exists() else []
    return unknown.arguments["order_id"] in paid


@upshot.tool(
    effect="write",
    # One refund of one order, whichever run, worker or user asks for it.
    once="order_id",
    verify=was_paid,
    # A person approves what costs more than 50 euros.
    approval=lambda arguments: ORDERS[str(arguments["order_id"])][1] > 5_000,
)
def refund(order_id: str) -> str:
    """Pay an order back to the customer."""
    # Call your payment provider here.
    with PAYMENTS.open("a") as file:
        file.write(f"{order_id}\n")
    return f"{ORDERS[order_id][1]} cents were paid back"


support = upshot.Agent(
    "support",
    model=MODEL,
    instructions="You help customers of a shop. Look the order up before you refund it.",
    tools=[order, refund],
    budget=upshot.Budget(max_turns=20),
)
app = upshot.App([support], journal=JOURNAL)
