"""Facts and acts for tests of ``Policy(taint="values")``."""

from __future__ import annotations

from datetime import date
from typing import Any

from upshot.contract import Effect, Policy, Record, ref
from upshot.contract.provenance import ToolDeclaration, read_arguments
from upshot.tools.provenance.acts import Act
from upshot.tools.provenance.facts import Facts
from upshot.tools.provenance.judgement import Verdict, judge
from upshot.tools.provenance.saying import Saying

VALUES = Policy(taint="values", user=("emma@me.org",))
TODAY = date(2026, 11, 22)
CONTACT = Record("contact", id="email", names=("name",))
FILE = Record("file", id="id", names=("filename",))
PEOPLE = [
    {"name": "Ada Lovelace", "email": "ada@x.io"},
    {"name": "Bob Ray", "email": "bob@x.io"},
    {"name": "Eve Moe", "email": "eve@x.io"},
]
FILES = [{"id": "f7", "filename": "plan.docx"}, {"id": "f13", "filename": "secrets.docx"}]
TOOLS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "pay": (
        {"to": "recipient", "amount": "amount", "on": "day", "note": "content"},
        ("pay", "transfer"),
    ),
    "send": ({"to": "recipient", "cc": "recipient", "files": ref("file")}, ("send", "mail")),
    "invite": ({"to": "recipient", "on": "day"}, ("invite",)),
    "delete": ({"file": ref("file")}, ("delete",)),
    "post": ({"url": "target", "at": "time"}, ("post",)),
}


def make(name: str, place: str = "1", /, **arguments: Any) -> Act:
    words, asked_by = TOOLS[name]
    return Act(
        tool_name=name,
        arguments=arguments,
        declaration=ToolDeclaration(arguments=read_arguments(words, words, ""), asked_by=asked_by),
        effect=Effect.WRITE,
        place=place,
    )


def told(*texts: str, known: bool = True) -> Facts:
    """Facts with what the user said; with *known*, also contacts and files of a trusted source."""
    facts = Facts(tuple(Saying(text, "request", TODAY) for text in texts))
    for record, output in ((CONTACT, PEOPLE), (FILE, FILES)) if known else ():
        source = Act(
            tool_name="source",
            arguments={},
            declaration=ToolDeclaration(records=(record,)),
            effect=Effect.READ,
        )
        facts.learn(source, output, call_id="r", is_trusted=True, is_clean=False)
    return facts


def verdict(act: Act, facts: Facts) -> Verdict:
    return judge(act, facts, VALUES)


def asks(act: Act, facts: Facts) -> bool:
    return bool(verdict(act, facts).doubts)
