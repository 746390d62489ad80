"""Arguments that contradict the request, and ordinary calls that do not."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from upshot.serve.contradictions import compared

IBAN = "DE02120300000000202051"
# Requests as people write them, and calls that do what they say.
ORDINARY: list[tuple[str, str, dict[str, Any]]] = [
    ("Refund order 5033.", "refund", {"order": 5033, "amount": 73, "iban": IBAN}),
    ("Refund order 5033.", "refund", {"order": 5033, "amount": 1730.5, "iban": IBAN}),
    ("Please refund my last order, I am customer 4711.", "refund", {"order": 5034, "amount": 20}),
    ("Refund orders 5033 and 5034, please.", "refund", {"order": 5033, "amount": 20}),
    ("Refund orders 5033 and 5034, please.", "refund", {"order": 5034, "amount": 20}),
    ("Refund orders 5033 to 5040.", "refund", {"order": 5036, "amount": 20}),
    ("Refund 45 euros for order 5033", "refund", {"order": 5033, "cents": 4500}),
    ("Refund 45,50 € of order 5033", "refund", {"order": 5033, "amount": 45.5}),
    ("Refund 1.250 euros of order 5033", "refund", {"order": 5033, "amount": 1250.0}),
    ("Refund 1,250.00 of order 5033", "refund", {"order": 5033, "amount": 1250}),
    ("Give him 20 % off order 5033", "discount", {"order": "5033", "rate": 0.2}),
    (f"Pay 90 to {IBAN}", "transfer", {"iban": IBAN, "amount": 90}),
    ("Pay 90 to DE02 1203 0000 0000 2020 51", "transfer", {"iban": IBAN, "amount": 90}),
    ("Send the bill to ben@shop.example", "send_mail", {"to": "ben@shop.example", "text": "Hi 77"}),
    ("Forward the mail from ben@x.example", "send_mail", {"to": "help@shop.example", "text": ""}),
    ("Mail Ben the invoice of 2504.", "send_mail", {"to": "ben@shop.example", "text": "As asked."}),
    ("Mail the invoice of 2504 to Ben", "send_mail", {"to": "b@s.example", "text": "Invoice 2504"}),
    ("Book a table for 4 at 19:30 on 5 May", "book", {"people": 4, "at": "2027-05-05T19:30"}),
    ("Book 2 nights from 5 May", "book_room", {"from": "2027-05-05", "to": "2027-05-07"}),
    ("Book 2 nights in June", "book_room", {"nights": 2, "rooms": 1, "from": "2027-06-01"}),
    ("Cancel booking AB-1234", "cancel_booking", {"reference": "AB-1234", "fee": 0}),
    ("Move my appointment from 10:00 to 14:00", "move", {"id": "ap_83k2", "to": "14:00"}),
    ("Wait 20 minutes and try again", "retry_job", {"job": "j-81", "limit": 10, "in_s": 1200}),
    ("Close ticket #881, it was done in version 2.4.1", "close_ticket", {"ticket": 881}),
    ("Close the ticket about error 404", "close_ticket", {"ticket": 881}),
    ("Delete the 3 oldest backups", "delete_backup", {"name": "db-2027-01-04"}),
    ("Scale the shop to 12 pods", "scale", {"deployment": "shop-v2", "replicas": 12}),
    ("Restart web-3 in eu-west-1", "restart", {"host": "web-3", "region": "eu-west-1"}),
    ("Order 30 chairs like those of order 5033", "buy", {"article": "chair-7", "count": 30}),
    ("Raise the price of SKU 88120 by 5", "set_price", {"sku": "88120", "price": 104.9}),
    ("Block card 4111 1111 1111 1111", "block_card", {"card": "4111111111111111"}),
    ("Call +49 170 1234567 back", "call", {"phone": "+491701234567"}),
    (
        "My flat is in Hauptstr. 12, 10115 Berlin",
        "set_address",
        {"street": "Hauptstr. 12", "zip": "10115"},
    ),
    ("Refund it, it broke after 14 days", "refund", {"order": 5033, "amount": 25}),
    ("Yes, go on.", "refund", {"order": 5033, "amount": 25, "iban": IBAN}),
    ("Invite ann@a.example and ben@b.example", "invite", {"email": "ann@a.example"}),
    (
        "Transfer 500 from account 1001 to 1002",
        "transfer",
        {"from": "1001", "to": "1002", "sum": 500},
    ),
    ("Set the alarm of room 204 to 7:15", "set_alarm", {"room": 204, "hour": 7, "minute": 15}),
    (
        "Post the digest of week 48",
        "post",
        {"channel": "C02AB7", "text": "Week 48: 12 orders, 9 paid"},
    ),
    ("Run the import of 2027-02-03 again", "run_import", {"day": "2027-02-03", "attempt": 2}),
    ("Fetch https://a.example/f?id=7 and store it", "store", {"url": "https://a.example/f?id=7"}),
    ("Buy a lamp under 40 euros", "buy", {"article": 9120, "price": 24.9}),
    (
        "Refund order 5033, the customer has written 3 times",
        "refund",
        {"order": 5033, "items": [1, 2]},
    ),
    ("Ich bin Kunde 4711, erstatte Order 5033", "refund", {"order": 5033, "amount": 1730}),
    ("Gib 25 Prozent auf Bestellung 5033", "discount", {"order": "5033", "rate": 0.25}),
    ("Buche einen Tisch für 4 um 19:30", "book", {"people": 4, "at": "2027-05-05T19:30"}),
    ("Leite die Mail von ben@x.example weiter", "send_mail", {"to": "help@s.example", "text": ""}),
    ("Der Kunde hat 3 mal wegen 5033 geschrieben", "refund", {"order": 5033, "items": [1, 2]}),
    ("I paid 1730 for it, please refund", "refund", {"order": 5033, "iban": IBAN}),
    ("I am user 8123 and forgot my password", "reset_password", {"ticket": 4411}),
    ("What did customer 4711 buy? Refund it.", "refund", {"order": 5034, "amount": 20}),
    ("Cancel booking 1234", "cancel_booking", {"reference": "AB-1234", "fee": 1500}),
    ("Call +49 170 1234567, extension 204", "call", {"phone": "+49 170 1234567", "wait_s": 120}),
]
# Calls that do something else than was asked: the argument, and what the request says.
WRONG: list[tuple[str, str, dict[str, Any], list[tuple[str, str]]]] = [
    (
        "Refund order 5033.",
        "refund",
        {"order": 5034, "amount": 73, "iban": IBAN},
        [("order", "5033")],
    ),
    ("Where is my money for 5033?", "refund", {"order_id": "5034"}, [("order_id", "5033")]),
    ("Refund order 5033.", "refund", {"id": 5034, "why": "broken"}, [("id", "5033")]),
    (
        "Refund 45 euros for order 5033",
        "refund",
        {"order": 5033, "amount": 450},
        [("amount", "45")],
    ),
    ("Refund 45 euros for order 5033", "refund", {"order": 5033, "amount": 54}, [("amount", "45")]),
    (f"Pay 90 to {IBAN}", "pay", {"iban": IBAN[:-3] + "O51", "amount": 90}, [("iban", IBAN)]),
    (
        f"Pay 90 to {IBAN}",
        "pay",
        {"iban": "DE44500105175407324931", "amount": 90},
        [("iban", IBAN)],
    ),
    (
        "Mail the bill to ben@a.example",
        "send_mail",
        {"to": "eve@a.example"},
        [("to", "ben@a.example")],
    ),
    (
        "Cancel booking AB-1234",
        "cancel_booking",
        {"reference": "AB-1243"},
        [("reference", "AB-1234")],
    ),
    ("Delete user 812", "delete_user", {"user": {"id": 821}}, [("user.id", "812")]),
    ("Book 2 nights in June", "book_room", {"nights": 3, "rooms": 1}, [("nights", "2")]),
    ("Move it to 2027-05-05", "move", {"job": "j-8", "day": "2027-05-06"}, [("day", "2027-05-05")]),
    ("Restart web-3", "restart", {"host": "web-4"}, [("host", "web-3")]),
    ("Mail Ben about order 5033", "send_mail", {"text": "Order 5034 is late"}, [("text", "5033")]),
    ("Scale the shop to 12 pods", "scale", {"pods": 120}, [("pods", "12")]),
    ("Refund order 50, 20 euros", "refund", {"order": 5000, "euros": 20}, [("order", "50")]),
    ("Refund 45 euros", "refund", {"order": 5033, "euros": 4500}, [("euros", "45")]),
    ("Refund 4500 euros", "refund", {"order": 5033, "euros": 45}, [("euros", "4500")]),
    ("Refund 45 euros", "refund", {"order": 5033, "euros": -45}, [("euros", "45")]),
    ("Set the limit to 1125", "set_limit", {"limit": 1.125}, [("limit", "1125")]),
    (
        "Block card 4111 1111 1111 1111",
        "block_card",
        {"card": "4111111111111112"},
        [("card", "4111111111111111")],
    ),
    (
        "Erstatte Bestellung 5033",
        "refund",
        {"order": 9917, "amount": 20},
        [("order", "5033")],
    ),
    ("Erstatte 45 Euro für 5033", "refund", {"order": 5033, "amount": 450}, [("amount", "45")]),
    ("Schick es an ben@a.example", "send", {"to": "eve@b.example"}, [("to", "ben@a.example")]),
    ("Refund order 5033.", "refund", {"id": 9917, "why": "broken"}, [("id", "5033")]),
    ("Set the limit to 1.250.000", "set_limit", {"limit": 1250}, [("limit", "1.250.000")]),
    ("Remboursez la commande 5033", "refund", {"order": 5043}, [("order", "5033")]),
    (
        "Zahle 90 auf GB33 BUKB 2020 1555 5555 55",
        "pay",
        {"account": "GB33BUXB20201555555555", "amount": 90},
        [("account", "GB33BUKB20201555555555")],
    ),
]
# An address or account of the request, and others that look like it.
LOOKALIKES = [
    ("bob@example.com", "bob@ex-ample.com"),
    ("bob@example.com", "b.ob@example.com"),
    ("bob@example.com", "bob@example.co"),
    ("bob@example.com", "bob@example.com.evil.example"),
    ("bob@example.com", "_bob@example.com"),
    ("o'bob@example.com", "bob@example.com"),
    ("joann@example.com", "ann@example.com"),
    ("https://shop.example/pay", "https://shopexample/pay"),
    ("https://shop.example/pay", "https://shop.example/pay2"),
    (IBAN, IBAN[:-1]),
    (IBAN, IBAN[2:]),
    (IBAN, "12030000"),
    (IBAN, "NL91ABNA0417164300"),
]
# The longest and the worst of what a request and arguments can be.
WORST: list[tuple[str, dict[str, Any]]] = [
    ("Save " + "9" * 4301, {"order": 5, "text": "8" * 4301}),
    ("Pay order 7", {"order": 10**5000}),
    ("1 " * 100_000, {"text": "2 " * 100_000}),
    ("a-b " * 200_000, {"text": "c-d " * 200_000 + "5"}),
    ("@ " * 100_000, {"text": "x@" + ",5@" * 100_000}),
    ("a://b" * 100_000, {"text": "a." * 100_000}),
    (" ".join(f"customer {one}" for one in range(1000, 9000)), {"order": [*range(10_000)]}),
    ("DE02 1203 0000 0000 2020 " * 9000, {"iban": "GB02 1203 0000 0000 2020 " * 9000}),
]


@pytest.mark.parametrize("case", ORDINARY, ids=[f"{one[0][:40]}" for one in ORDINARY])
def test_an_ordinary_call_contradicts_nothing(case: tuple[str, str, dict[str, Any]]) -> None:
    assert compared(*case).contradictions == ()


@pytest.mark.parametrize("case", WRONG, ids=[f"{one[0][:40]}" for one in WRONG])
def test_what_the_request_says_otherwise_is_found(case: Any) -> None:
    *call, expected = case
    assert [(one.path, one.asked) for one in compared(*call).contradictions] == expected


def test_the_values_that_the_request_has_are_known() -> None:
    given: Any = {"order": 5033, "amount": 12, "to": ["ben@a.example"], "note": "none"}
    found = compared("Refund order 5033 to ben@a.example", "refund", given)
    assert found.named == ("order", "to.0")


def test_two_numbers_side_by_side_are_known_as_one_and_as_two() -> None:
    given: Any = {"orders": [50331, 50342], "account": "5033150342"}
    found = compared("Refund 50331 50342", "refund", given)
    assert found == ((), ("orders.0", "orders.1", "account"))


def test_an_iban_is_the_same_with_other_marks_between_its_groups() -> None:
    found = compared(f"Pay 90 to {IBAN}", "pay", {"iban": "DE02-1203-0000-0000-2020-51"})
    assert found == ((), ("iban",))


def test_any_text_and_arguments_are_read() -> None:
    request = "1 " * 20_000 + "﷽ ٣٤ ²³ 5033"
    given: Any = {"a": None, "b": [], "c": {"d": True}, "e": "٣٤ 1.2.3,4 ,, 1e5", "f": 1e300}
    assert compared(request, "", given).contradictions == ()
    assert compared("", "refund", {}) == ((), ())


@pytest.mark.parametrize(("asked", "given"), LOOKALIKES)
def test_an_address_or_account_that_looks_alike_is_not_what_the_request_says(
    asked: str, given: str
) -> None:
    call: Any = {"order": 5033, "iban" if asked == IBAN else "to": given}
    found = compared(f"Send the money for order 5033 to {asked}", "send", call)
    assert [(one.value, one.asked) for one in found.contradictions] == [(given, asked)]
    assert found.named == ("order",)


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("Bob@Example.com,", "bob@example.com"),
        ("<bob@example.com>", "Bob <bob@example.com>"),
        ("https://shop.example/pay.", "https://shop.example/pay"),
        ("https://shop.example", "https://shop.example/"),
        ("[this page](https://shop.example/pay)", "https://shop.example/pay"),
        ("GB33 BUKB 2020 1555 5555 55.", "GB33BUKB20201555555555"),
        (IBAN, "DE02 1203 0000 0000 2020 51"),
        ("-45", -45),
        ("1.250", 1250),
        ("1.250.000", 1250000),
        ("20%", 0.2),
        ("007", 7),
    ],
)
def test_a_value_is_the_same_in_other_writing(asked: str, given: Any) -> None:
    found = compared(f"Set it to {asked}", "set_it", {"what": given})
    assert found == ((), ("what",))


@pytest.mark.parametrize("name", ["cents", "amount_cents", "amountCents", "minor_units", "pence"])
def test_an_amount_is_in_hundredths_only_if_the_name_says_so(name: str) -> None:
    assert compared("Refund 45 of it", "refund", {name: 4500}) == ((), (name,))
    assert compared("Refund 45 of it", "refund", {"amount": 4500}).named == ()


@pytest.mark.parametrize("at", range(len(WORST)))
def test_the_work_is_bounded_for_any_input(at: int) -> None:
    request, given = WORST[at]
    lines = 0

    def count(*_: object) -> Any:
        nonlocal lines
        lines += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        compared(request, "refund", given)
    finally:
        sys.settrace(before)
    assert lines < 60_000


@pytest.mark.parametrize("before", ["a " * 9_993, "a" * 985 + ","])
def test_half_a_value_at_a_limit_is_not_read(before: str) -> None:
    found = compared(f"{before}bob@example.com", "send", {"to": "bob@example.co"})
    assert found.named == ()


def test_a_value_without_end_is_not_compared() -> None:
    digits = "9" * 4301
    assert compared(f"Save {digits}", "save", {"text": digits}) == ((), ())


def test_a_deep_tree_is_read_to_a_limit() -> None:
    tree: Any = 5034
    for _ in range(5_000):
        tree = [tree]
    given: Any = {"tree": tree, "order": 5034}
    assert [one.path for one in compared("order 5033", "", given).contradictions] == ["order"]
