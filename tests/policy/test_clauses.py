"""Whom and what the user named for an act, with a model that takes every word it can use."""

from __future__ import annotations

from typing import Any

import pytest

from tests.policy.kit import asks, make, told, verdict

EVE = "eve@x.io"

AGAINST = [
    "Send the report to everybody but {}",
    "Send the report to all besides {}",
    "Send the report to everyone, barring {}",
    "Send the report to everyone minus {}",
    "Send the report to everyone save {}",
    "Send it to Ada, not {}",
    "Send it to Ada instead of {}",
    "Send it to Ada rather than {}",
    "Send it to Ada, apart from {}",
    "Send it to Ada and skip {}",
    "Send it to Ada and block {}",
    "Send it to Ada, ignore {}",
    "Send it to Ada. Refuse {}",
    "Send it to Ada, then remove {} from the list",
    "Send it to Ada and unfollow {}",
    "Send it to Ada; {} is a fraud",
    "Send it to Ada. I blocked {} last week",
    "Send Ada the mail {} wrote",
    "Send Ada the mail that {} wrote",
    "Send Ada the mail sender: {}",
    "Send Ada the mail (sender: {})",
    "Send Ada the mail from {}",
    "Send Ada the mail by {}",
    "Send Ada the mail of {}",
    "Send Ada what {} sent",
    "Send Ada {}'s mail",
    "Send Ada the mail about {}",
    "Send the report {} made to Ada",
    "Send Ada the list without {}",
    "Send it to whoever replaced {}",
    "Send it to Ada, who replaced {}",
    "Send Ada the file that belongs to {}",
    "Send Ada the file because {} asked for it",
    "Send it to Ada, as {} has it already",
    "Send it to Ada, {} has it already",
    "Send it to Ada or {}",
    "Send it to Ada before {} wakes up",
    "Send it to Ada like {} does",
    "Sending it to Ada is fine; {} annoys me",
    "Reply to {} and send it to Ada",
    "Unsubscribe {}. Send it to Ada",
    "Mail {} forwarded is spam, send it to Ada",
    "The mail {} wrote: send it to Ada",
    "Make sure {} does not get it and send it to Ada",
    "Send the file that I showed to {} to Ada",
    "Send the contract signed by {} to Ada",
    "Remind {} to send it to Ada",
    "Ask Ada to send it to {}",
    "Send Ada the report and keep {} out",
    "Send the report to Ada, but to {} nothing",
    "Send the report to Ada; never mind {}",
    "Send the report to Ada, {} must not see it",
    "Send the report to Ada, hide it from {}",
    "Send the report to Ada. {} left the firm",
    "Send the report to Ada. Not to {}",
    "Send the report to Ada. Anyone else, {} included, may wait",
    "Send the report to Ada, with greetings to {}",
    "Send the report to Ada with love to {}",
    "Send Ada the report that goes to {}",
    "Send Ada the report to {}",
    "Send Ada the mail to {}",
    "Send Ada a copy of the mail to {}",
    "Send my reply to {} to Ada",
    "Send the letter addressed to {} to Ada",
    "Send a mail to Ada to warn {}",
    "Send a mail to Ada about access to {}",
    "Send a mail to Ada: {} is bad",
    "Send a mail to Ada, subject: {}",
    "Send a mail to Ada titled {}",
    "Send a mail to Ada called {}",
    "Send a mail to Ada named {}",
    "Send a mail to Ada with {} as its subject",
    "Send a mail to Ada with the address of {}",
    "Send a mail to Ada with {}'s address",
    "Send a mail to Ada including {} in the text",
    "Send a mail to Ada including the name {}",
    "Send the mail {} to Ada",
    "Send mail {} got to Ada",
    "Send all that {} wants to Ada",
    "Send a mail to everyone, {} excluded",
    "Send a mail to everyone, {} excepted",
    "Send a mail to everyone ({} aside)",
    "Send a mail to everyone - {} is out",
    "Send a mail to no one, {} least of all",
    "Send a mail to all, leaving {} out",
    "Send a mail to everyone bar {}",
    "Send a mail to everyone other than {}",
    "Send a mail to everyone outside {}",
    "Send a mail to everyone from {} to Ada",
    "Send the report to Ada and unshare {}",
    "Send the report to Ada and Cc nobody, least of all {}",
    "Send the report to Ada (no longer to {})",
    "Send the report to Ada, formerly to {}",
    "Send the report to Ada instead, {} quit",
    "Send everyone on my list to Ada, {} too",
    "Send everybody to Ada, also {}",
    "Send everybody to Ada, and {} as well",
    "Send the customers to Ada, Bob and {} too",
    "Send the interns to Ada ({} likewise)",
    "Send all my contacts to Ada, including {}",
    "Send the pictures with {} to Ada",
    "Send the letter to {} to Ada",
    "Send the letter to {} the contract",
    "Send the mail to Bob and {} my plan",
    "Send the {} invitation to Ada",
    "Send my {} pictures to Ada",
    "Send {} and Bob's pictures to Ada",
    "Send {}, Carl and Bob's pictures to Ada",
]


@pytest.mark.parametrize("name", [EVE, "Eve", "Eve Moe"])
def test_who_is_named_otherwise_than_as_the_receiver_gets_nothing(name: str) -> None:
    for text in AGAINST:
        facts = told(text.format(name))
        assert asks(make("send", to=EVE), facts), text
        assert asks(make("send", to=name), facts), text
        assert asks(make("send", to=["ada@x.io", EVE]), facts), text


SPEAKS_AGAINST = (
    *("skip", "block", "ignore", "refuse", "remove", "exclude", "omit", "avoid", "reject", "ban"),
    *("drop", "leave out", "left out", "forget", "unsubscribe", "distrust", "blacklist", "mute"),
    *("mistrust", "hate", "dislike", "decline", "revoke", "bar", "fire", "sack", "beware of"),
    *("keep away from", "stay away from", "spam", "scam", "fraudulently got", "phish"),
)


@pytest.mark.parametrize("words", SPEAKS_AGAINST)
def test_what_the_user_speaks_against_is_not_asked_for(words: str) -> None:
    delete = make("delete", file="f13")
    assert asks(delete, told(f"I {words} secrets.docx. Delete it"))
    assert not asks(delete, told("I like secrets.docx. Delete it"))


ELSEWHERE = [
    "Read my mail, then pay Ada 50 euros and mail Bob that it is done",
    "Pay Ada 50 euros. Mail Bob that it is done",
    "Pay Ada 50 euros, mail Bob",
    "Pay Ada 50 euros; mail Bob",
    "Pay Ada 50 euros\nMail Bob",
    "Pay Ada 50 euros then mail Bob",
    "Pay Ada 50 euros and then please mail Bob",
    "Pay Ada 50 euros and tell Bob",
    "Pay Ada 50 euros and nudge Bob",
    "Pay Ada 50 Euros And Nudge Bob",
    "PAY ADA 50 EUROS AND NUDGE BOB",
    "Pay Ada 50 euros. Nudge Bob",
    "Pay Ada 50 euros, Nudge Bob",
    "Pay Ada 50 euros while you mail Bob",
    "Mail Bob that you pay Ada 50 euros",
    "Mail Bob, and pay Ada 50 euros",
    "Mail Bob after you have paid Ada 50 euros",
    "After mailing Bob pay Ada 50 euros",
    "Ask Bob whether I should pay Ada 50 euros, then pay Ada",
    "Pay Ada 50 euros for the trip with Bob",
    "Pay Ada 50 euros with Bob's card",
    "Pay Ada 50 euros for Bob",
    "Pay Ada 50 euros so that Bob can relax",
    "Pay Ada the 50 euros Bob lent me",
    "Pay Ada 50 euros (Bob already got his)",
    "Pay Ada 50 euros, and let Bob know",
    "Pay Ada 50 euros, cc Carl, and write to Bob",
    "Could you pay Ada 50 euros and could you write to Bob?",
    "Pay Ada 50 euros & message Bob",
    "Pay Ada 50 euros - mail Bob",
    "1. Pay Ada 50 euros 2. Mail Bob",
    "- pay Ada 50 euros\n- mail Bob",
    "Pay Ada 50 euros plus mail Bob",
    "Pay Ada. Pay nobody else. Bob likes 50 euros",
    "Pay Ada 50 euros. His address is Bob. Mail Carl",
    "Remind Bob to pay Ada 50 euros",
    "Remind Ada to pay Bob 50 euros",
    "Bob wants to pay Ada 50 euros",
    "I read that Ada has to pay Bob 50 euros",
    "Pay Ada 50 euros and, if Bob asks, tell him so",
    "Pay Ada 50 euros. Bob",
    "Pay Ada 50 euros. Bob: done",
    "Pay Ada 50 euros. To Bob I owe nothing",
    "Pay Ada 50 euros, Bob was paid",
    "Pay Ada 50 euros to help Bob",
    "Pay Ada 50 euros to impress Bob",
    "Pay Ada 50 euros to Bob's surprise",
    "Pay Ada 50 euros, thanks to Bob",
    "Pay Ada 50 euros owed to Bob",
    "Pay Ada 50 euros due to Bob",
    "Pay Ada 50 euros according to Bob",
    "Pay Ada 50 euros next to Bob",
    "Pay Ada 50 euros back, unlike to Bob",
    "Pay Ada 50 euros and forward the receipt to Bob",
    "Pay Ada 50 euros including Bob's tip",
    "Pay Ada 50 euros, including what Bob ate",
    "Pay Ada 50 euros and Bob nothing",
    "Pay Ada 50 euros and Bob zero",
    "Pay Ada, Bob's wife, 50 euros",
    "Pay Ada, not Bob, 50 euros",
    "Pay Ada, sister of Bob, 50 euros",
    "Pay Ada and Bob's wife 50 euros",
    "Pay the friend Bob mentioned 50 euros",
    "Pay my friend Bob introduced 50 euros",
    "Pay Ada 50 euros in addition to Bob",
    "Pay Ada 50 euros as a loan to Bob",
    "Pay Ada 50 euros for a gift to Bob",
    "Pay Ada 50 euros, write to Bob",
    "Pay Ada 50 euros in response to Bob",
    "Pay Ada 50 euros, and also nudge Bob",
    "Pay Ada 50 euros, also Bob wants to know",
    "Bob: pay Ada 50 euros",
    "Bob, pay Ada 50 euros",
    "Pay Ada 50 euros (see mail to Bob)",
    "Pay Ada 50 euros and add Bob to the list",
    "Pay Ada 50 euros and a note to Bob",
    "Pay Ada 50 euros + hello to Bob",
    "Pay Ada 50 euros re: invoice to Bob",
    "Pay Ada 50 euros, answer to Bob",
    "Pay Ada 50 euros. Greetings to Bob",
    "Pay Ada 50 euros. My reply to Bob: thanks",
    "Pay Ada 50 euros using the card belonging to Bob",
    "Pay Ada 50 euros with the money sent to Bob",
    "Pay the bill to Bob 50 euros of Ada",
    "Pay the rent to Bob 50 euros",
    "Pay the sum to Bob to Ada 50 euros",
    "Pay Bob and Carl's wife 50 euros",
    "Pay the Bob bill, 50 euros",
]


def test_who_was_named_for_another_act_is_not_paid() -> None:
    for text in ELSEWHERE:
        facts = told(text)
        for to in ("bob@x.io", "Bob", "Bob Ray"):
            assert asks(make("pay", to=to, amount=50), facts), text
        literal = told(text.replace("Bob", "bob@x.io"))
        assert asks(make("pay", to="bob@x.io", amount=50), literal), text


UNCLEAR = [
    ("send", "Send Ada to Bob"),
    ("send", "Send Ada and Carl to Bob"),
    ("send", "Send ada@x.io to bob@x.io"),
    ("send", "Send Ada with Bob"),
    ("send", "Send Ada the report to Bob"),
    ("send", "Send Ada the letter to my friend Bob"),
    ("send", "Send the letter to Bob about the rent to Ada"),
    ("send", "Send the letter to Bob and Carl to Ada"),
    ("pay", "Pay Bob and 50 euros to Ada"),
    ("pay", "Pay Bob 50 euros to Ada"),
    ("pay", "Pay Bob, and 50 euros to Ada"),
    ("pay", "Pay Bob and Carl and 50 euros to Ada"),
    ("pay", "Pay Bob the rent and 50 euros to Ada"),
    ("pay", "Transfer to Bob 50 euros to Ada"),
]


@pytest.mark.parametrize(("tool", "text"), UNCLEAR)
def test_of_several_who_may_be_meant_nobody_is(tool: str, text: str) -> None:
    facts, amount = told(text), {"amount": 50} if tool == "pay" else {}
    for to in ("ada@x.io", "Ada", "bob@x.io", "Bob"):
        assert asks(make(tool, to=to, **amount), facts)


def test_an_account_is_one_who_may_be_meant() -> None:
    one, other = "GB29NWBK60161331926819", "CA133012400231215421872"
    facts = told(f"Pay {one} and 50 euros to {other}")
    for to in (one, other):
        assert asks(make("pay", to=to, amount=50), facts)


@pytest.mark.parametrize("text", ["Send Ada to {}", "Send Ada and Bob to {}"])
@pytest.mark.parametrize("place", ["the printer", "my wife", "Ray's party"])
def test_who_is_sent_somewhere_gets_nothing(text: str, place: str) -> None:
    assert asks(make("send", to="ada@x.io"), told(text.format(place)))


def test_who_is_invited_is_not_where_they_are_invited_to() -> None:
    facts = told("Invite Ada to Bob")
    assert not asks(make("invite", to="ada@x.io"), facts)
    assert asks(make("invite", to="bob@x.io"), facts)


@pytest.mark.parametrize(
    "text",
    [
        "Delete plan.docx because secrets.docx replaces it",
        "Delete plan.docx in favour of secrets.docx",
        "Delete plan.docx, the copy of secrets.docx",
    ],
)
def test_of_several_things_that_may_be_meant_none_is(text: str) -> None:
    for file in ("f7", "plan.docx", "f13", "secrets.docx"):
        assert asks(make("delete", file=file), told(text))


def test_which_thing_goes_to_whom_is_asked() -> None:
    facts = told("Send plan.docx to Ada and secrets.docx to Bob")
    for to in ("Ada", "Bob"):
        for file in ("f7", "f13"):
            assert asks(make("send", to=to, files=[file]), facts)


@pytest.mark.parametrize(
    ("text", "to", "amount"),
    [
        ("Pay Ada 50 euros and mail Bob the bill of 900 euros", "Ada", 900),
        ("Pay Ada 50 euros and lend Bob 900", "Ada", 900),
        ("Pay Ada 50 euros, and remember that rent is 900. Nudge Bob", "Ada", 900),
        ("Pay Ada and order a table for 900 euros", "Ada", 900),
        ("Pay Ada and pay Bob 900 euros", "Ada", 900),
        ("Pay Ada 50 euros and Bob 900", "Ada", 900),
        ("Pay Ada 50 euros and Bob 900", "Bob", 50),
        ("Pay Ada 50 euros and Bob 900", "Ada", 950),
        ("Pay Ada 50 euros and transfer 900 to Bob", "Bob", 50),
        ("Pay Ada 50 of the 900 euros that I have", "Ada", 900),
        ("Pay Ada. Keep 900 euros back", "Ada", 900),
        ("Pay Ada 50 euros if the bill is under 900", "Ada", 900),
        ("Pay Ada. Tell Bob that 900 euros are missing", "Ada", 900),
        ("Write 'pay 900' to Bob and pay Ada", "Ada", 900),
        ("Buy for 900 euros, then pay Ada", "Ada", 900),
    ],
)
def test_an_amount_that_was_named_for_another_act_is_not_paid(
    text: str, to: str, amount: float
) -> None:
    assert asks(make("pay", to=to, amount=amount), told(text))


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("Delete plan.docx and keep secrets.docx", "f13"),
        ("Delete all files but secrets.docx", "f13"),
        ("Delete plan.docx, archive secrets.docx", "f13"),
        ("Read secrets.docx and delete plan.docx", "f13"),
        ("Delete everything besides secrets.docx", "f13"),
        ("Delete plan.docx. I need secrets.docx; avoid it", "f13"),
        ("Share secrets.docx, then delete plan.docx", "f13"),
    ],
)
def test_a_file_of_another_act_is_not_deleted(text: str, file: str) -> None:
    assert asks(make("delete", file=file), told(text))
    assert asks(make("delete", file="secrets.docx"), told(text))


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ("Pay Ada 50 euros", "pay", {"to": "ada@x.io", "amount": 50}),
        ("Please pay Ada and Bob 50 euros each", "pay", {"to": "Bob", "amount": 50}),
        ("Pay Ada 50 and Bob 70", "pay", {"to": "bob@x.io", "amount": 70}),
        ("I want you to pay Ada 50 euros", "pay", {"to": "Ada", "amount": 50}),
        ("Could you pay 50 euros to Ada?", "pay", {"to": "Ada", "amount": 50}),
        ("Read my mail, then pay Ada 50 euros", "pay", {"to": "Ada", "amount": 50}),
        ("Pay Ada 50 euros and mail Bob", "pay", {"to": "Ada", "amount": 50}),
        ("Pay 50 euros and mail Bob", "send", {"to": "bob@x.io"}),
        ("Don't forget to pay Ada 50 euros", "pay", {"to": "Ada", "amount": 50}),
        ("Pay Ada (ada@x.io) 50 euros", "pay", {"to": "ada@x.io", "amount": 50}),
        ("Pay Carl 50 euros. His address is carl@x.io", "pay", {"to": "carl@x.io", "amount": 50}),
        ("Pay Ada. The amount is 50 euros.", "pay", {"to": "Ada", "amount": 50}),
        ("Send it to ada@x.io, bob@x.io and carl@x.io", "send", {"to": ["carl@x.io"]}),
        ("Send it to Ada, cc Bob", "send", {"to": "Ada", "cc": "Bob"}),
        ("Send it to my friend Ada Lovelace", "send", {"to": "ada@x.io"}),
        ("Find plan.docx and send it to Ada", "send", {"to": "Ada", "files": ["f7"]}),
        ("Invite Ada tomorrow", "invite", {"to": "Ada", "on": "2026-11-23"}),
        ("Recipient: carl@x.io. Send it", "send", {"to": "carl@x.io"}),
        ("Send it to Ada, Bob too", "send", {"to": ["Ada", "Bob"]}),
        ("Mail Ada, Bob too", "send", {"to": ["Ada", "Bob"]}),
        ("Send plan.docx to Ada, and Bob as well", "send", {"to": ["Ada", "Bob"]}),
        ("Send the report to everyone, including Ada", "send", {"to": "Ada"}),
        ("Send the report to Ada and Bob", "send", {"to": ["Ada", "Bob"]}),
        ("Send a mail to Ada to thank her", "send", {"to": "Ada"}),
        ("Invite Ada to the dinner", "invite", {"to": "Ada"}),
        ("Pay 50 euros to Ada, Bob as well", "pay", {"to": "Bob", "amount": 50}),
        ("Pay to Ada 50 euros", "pay", {"to": "Ada", "amount": 50}),
        ("Send the report to Ada, cc Bob", "send", {"to": "Ada", "cc": "Bob"}),
        ("Send the report to Ada, never to Bob", "send", {"to": "Ada"}),
        ("Send Plan.docx to Ada", "send", {"to": "Ada"}),
        ("Send Bob's report to Ada", "send", {"to": "Ada"}),
        ("Send 'Plan' to Ada", "send", {"to": "Ada"}),
        ("Mail Ada to thank her", "send", {"to": "Ada"}),
        ("Invite Ada to Slack", "invite", {"to": "Ada"}),
        ("Invite Ada and Bob to Ada's party", "invite", {"to": "Bob"}),
        ("Pay inv7 to Ada 50 euros", "pay", {"to": "Ada", "amount": 50}),
        ("Pay Ada 50 euros to her account", "pay", {"to": "Ada", "amount": 50}),
        ("Pay 50 euros to Ada and 70 to Bob", "pay", {"to": "Bob", "amount": 70}),
        ("Send plan.docx and the file secrets.docx to Ada", "send", {"to": "Ada", "files": ["f7"]}),
        ("Send plan.docx and secrets.docx to Ada", "send", {"to": "Ada", "files": ["f7", "f13"]}),
        ("I do not need plan.docx. Delete plan2.docx", "delete", {"file": "plan2.docx"}),
    ],
)
def test_what_was_asked_for_plainly_costs_no_question(
    text: str, tool: str, arguments: dict[str, Any]
) -> None:
    assert verdict(make(tool, **arguments), told(text)).doubts == ()


def test_what_answers_a_question_serves_the_only_act_that_was_asked_for() -> None:
    from upshot.tools.provenance.saying import Saying

    def answered(request: str, answer: str) -> Any:
        facts = told(request)
        facts.sayings = (*facts.sayings, Saying(answer, "answer q"))
        return facts

    paid = make("pay", to="carl@x.io", amount=50)
    assert not asks(paid, answered("Pay.", "carl@x.io, 50"))
    assert not asks(make("pay", to="Ada", amount=50), answered("Pay.", "Ada, 50"))
    assert asks(paid, answered("Pay Ada 50 euros and mail Bob", "carl@x.io"))
    assert asks(paid, answered("Pay.", "not carl@x.io, 50"))
