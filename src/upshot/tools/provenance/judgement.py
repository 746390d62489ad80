"""Whether each argument of a call is vouched for, or a stranger may have chosen it.

``judge`` is a pure function of the declarations (``Act``), of ``Facts`` and of the policy.
It has no I/O and no clock. ``Facts`` are a fold of the log: of what the user said, and of the
settled calls in order. So a resumed run comes to the same verdict, and no earlier conclusion has to
be believed.

The life of a call: the gate makes an ``Act`` from it and calls ``judge``; doubts are shown to the
user; once the call is settled, ``Facts.learn`` learns from it.

Invariants:

- What the model wrote vouches for nothing, nor does a result of an untrusted source.
- A value is vouched for as a whole: each item of a list, and each leaf of an object.
- What cannot be read with certainty is in doubt.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias, cast

from upshot.contract.base.enums import Effect
from upshot.contract.base.json_values import canonical_json, pointer_step
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.provenance import (
    Argument,
    Doubt,
    Meaning,
    Voucher,
)
from upshot.contract.settings import Policy
from upshot.tools.provenance.acts import (
    Act,
    has_double,
    named_groups,
)
from upshot.tools.provenance.clauses import Reading
from upshot.tools.provenance.facts import Facts, Known
from upshot.tools.provenance.saying import (
    Number,
    Saying,
    Span,
    fold,
    has_lookalike,
    mark_read,
    parse_moment,
    parse_number,
    parse_url,
    was_read,
)
from upshot.tools.provenance.whereabouts import (
    leaves,
    sayings_beside,
    text_of,
    whereabouts,
)

MAX_SAID = 20_000
"""The maximum length of a message of the user in characters; a longer one vouches for nothing."""

_CONTENT = Argument(word="content")


class Verdict(NamedTuple):
    """What is in doubt about a call, and what is not.

    Attributes:
        doubts: What the user has to decide; if empty, the call may run.
        vouched: What vouches for the other arguments.
    """

    doubts: tuple[Doubt, ...] = ()
    vouched: tuple[Voucher, ...] = ()


NO_VERDICT = Verdict()


def judge(act: Act, facts: Facts, policy: Policy) -> Verdict:
    """Find what a stranger may have chosen in a call.

    Args:
        act: The call.
        facts: What is known.
        policy: The user's rules.
    """
    return _Judge(act, facts, policy).verdict()


def is_clean(act: Act, facts: Facts, policy: Policy) -> bool:
    """Whether a stranger cannot have chosen anything in a call, not even words that stay here."""
    strict = _Judge(act, facts, policy, is_strict=True)
    strict.judge_arguments()
    return not strict.doubts


def goes_to_known_hosts(act: Act, policy: Policy) -> bool:
    """Whether a read goes to ``Policy.hosts``, and carries nothing a stranger may have chosen."""
    judged = _Judge(act, Facts(), policy)
    judged.judge_arguments()
    return not judged.doubts and any(one.rule == "host" for one in judged.vouched)


class _Found(NamedTuple):
    """What vouches for a value.

    Attributes:
        rule: The rule.
        source: Where it comes from.
        at: The place in what the user said, or None.
    """

    rule: str
    source: str = ""
    at: tuple[Saying, Span] | None = None


# A text is the reason for a doubt.
_Answer: TypeAlias = _Found | str

_UNSAID = "the user did not say it"
_UNWANTED = "the user said it of what they do not want"
_OF_ANOTHER = "the user said it of something else that they asked for"
_SEVERAL = "the user said several amounts, and this one of something else"
_CONTROLS = frozenset(("said", "record", "made", "user", "host"))


class _Judge:
    def __init__(self, act: Act, facts: Facts, policy: Policy, *, is_strict: bool = False) -> None:
        self._act = act
        self._facts = facts
        self._policy = policy
        self._is_strict = is_strict
        self._users = {fold(name) for name in policy.user}
        self._name = ""
        self._is_only: bool | None = None
        self._has_amount = any(one.word == "amount" for one in act.declaration.arguments.values())
        # Where the user named the recipients or objects of the call.
        self._parties: list[tuple[Saying, Span]] = []
        self.doubts: list[Doubt] = []
        self.vouched: list[Voucher] = []

    def verdict(self) -> Verdict:
        """Judge the whole call."""
        act, facts = self._act, self._facts
        self.judge_arguments()
        for reason in self._of_call():
            self.doubts.append(Doubt(path="", value=None, word="call", reason=reason))
        if act.effect is not Effect.READ:
            things = facts.things_in(act)
            if facts.was_done(act, things):
                reason = "it was done before in this run"
                self.doubts.append(Doubt(path="", word="call", reason=reason))
            if has_double(things, named_groups(act)):
                reason = "it names the same one twice"
                self.doubts.append(Doubt(path="", word="call", reason=reason))
        return Verdict(tuple(self.doubts), tuple(self.vouched))

    def _of_call(self) -> Iterator[str]:
        act = self._act
        if act.effect is Effect.DESTRUCTIVE:
            yield "what it does cannot be undone"
        if not self.doubts and not any(one.rule in _CONTROLS for one in self.vouched):
            yield "nothing in it is the user's"
        if act.effect is not Effect.READ and not self._is_asked_for():
            words = " or ".join(repr(word) for word in self._asked_by())
            yield f"the user asked for no such act: {words} is not among their words"

    def _asked_by(self) -> tuple[str, ...]:
        return self._act.declaration.asked_by or (self._act.tool_name.partition("_")[0],)

    def _is_asked_for(self) -> bool:
        return any(self._reading(saying).asks for saying in self._facts.sayings)

    def _reading(self, saying: Saying) -> Reading:
        """Return the relation of the clauses of *saying* to this act."""
        asked_by = self._asked_by()
        found = saying.readings.get(asked_by)
        if not isinstance(found, Reading):
            verbs = [span for word in asked_by for span in saying.find_verb(word)]
            found = Reading(saying, filter(saying.is_wanted, verbs))
            saying.readings[asked_by] = found
        return found

    def _is_only_act(self) -> bool:
        """Whether the user asked for no other act to which a value may belong."""
        if self._is_only is None:
            readings = map(self._reading, self._facts.sayings)
            self._is_only = not any(reading.asks_for_another for reading in readings)
        return self._is_only

    def _objection(
        self, saying: Saying, span: Span, *, is_receiver: bool, is_moment: bool = False
    ) -> str:
        """Return why the text there does not vouch for this act, "" if it does."""
        reading = self._reading(saying)
        if reading.is_against(span):
            return _UNWANTED
        if self._act.effect is Effect.READ:
            return ""
        stance = reading.stance(span)
        if is_receiver:
            if saying.is_sender(span):
                return "the user named it as a sender only"
            if not reading.receives(span, has_amount=self._has_amount):
                return "the user did not name it as the one who gets this"
            is_meant = stance == "act" or self._is_only_act()
        else:
            readings = [self._reading(one) for one in self._facts.sayings]
            is_meant = (
                stance == "act"
                or (stance == "stated" and (is_moment or not any(map(_names_things, readings))))
                or (stance == "looked" and any(one.refers for one in readings))
            )
        return "" if is_meant else _OF_ANOTHER

    def judge_arguments(self) -> None:
        """Judge each argument; amounts last, because they belong to their recipients."""
        longest = max((len(saying.text) for saying in self._facts.sayings), default=0)
        if longest > MAX_SAID:
            reason = f"what the user said is too long to be read: {longest} characters, at most "
            self.doubts.append(Doubt(path="", word="call", reason=f"{reason}{MAX_SAID}"))
            return
        names = sorted(self._act.arguments, key=lambda name: self._word(name).word == "amount")
        for name in names:
            word, value = self._word(name), self._act.arguments[name]
            schema = self._inside(self._inside(self._act.parameters, "properties"), name)
            self._name = name
            path = f"/{pointer_step(name)}"
            if "default" in schema and schema["default"] == value:
                self._vouch(path, value, _Found("default", "schema"))
            elif value in ([], {}, None) and not _is_harmless(value, word):
                self._doubt(path, value, word, "it is empty, which may mean all")
            else:
                self._judge(path, value, word, schema)

    def _word(self, name: str) -> Argument:
        word = self._act.word_of(name)
        return _CONTENT if self._is_strict and word.word == "free" else word

    def _judge(self, path: str, value: Json, word: Argument, schema: JsonObject) -> None:
        if word.word == "free" or (value in ([], {}, None) and _is_harmless(value, word)):
            self._vouch(path, value, _Found("free" if word.word == "free" else "choice"))
        elif isinstance(value, list):
            for at, item in enumerate(value):
                self._judge(f"{path}/{at}", item, word, self._inside(schema, "items"))
        elif isinstance(value, dict):
            known, words = self._inside(schema, "properties"), self._act.declaration.arguments
            for key, item in value.items():
                if key not in known:
                    self._judge_leaf(f"{path}/{pointer_step(key)}", key, word)
                its = words.get(f"{self._name}.{key}", word)
                self._judge(f"{path}/{pointer_step(key)}", item, its, self._inside(known, key))
        elif word.word == "recipient" and isinstance(value, str) and "@" in value:
            for one in value.replace(";", ",").split(","):
                self._judge_leaf(path, one.strip(" "), word)
        else:
            self._judge_leaf(path, value, word)

    def _inside(self, schema: JsonObject, key: str) -> JsonObject:
        """Return the schema under *key* in *schema*, with references resolved."""
        found: Any = schema.get(key)
        for _ in range(_MAX_REFERENCES):
            if not isinstance(found, dict):
                return {}
            inner = cast("JsonObject", found)
            name = inner.get("$ref")
            if not isinstance(name, str):
                return inner
            definitions: Any = self._act.parameters.get("$defs", {})
            found = definitions.get(name.rpartition("/")[2])
        return {}

    def _judge_leaf(self, path: str, value: Json, word: Argument) -> None:
        found = self._match_words(value, word)
        if isinstance(found, str):
            judged = _RULES[word.word](self, value, word)
            found = judged if isinstance(judged, _Found) else found or judged
        if isinstance(found, str):
            self._doubt(path, value, word, found)
        else:
            self._vouch(path, value, found)
            if found.at is not None and word.word in ("recipient", "ref", "target"):
                self._parties.append(found.at)

    def _vouch(self, path: str, value: Json, found: _Found) -> None:
        digest = hashlib.sha256(canonical_json(value)).hexdigest()[:16]
        self.vouched.append(Voucher(path=path, digest=digest, rule=found.rule, source=found.source))

    def _doubt(self, path: str, value: Json, word: Argument, reason: str) -> None:
        self.doubts.append(
            Doubt(
                path=path,
                value=value,
                word=str(word),
                reason=reason,
                found=whereabouts(value, self._facts.results),
                said=", ".join(sayings_beside(word, self._facts.sayings)),
            )
        )

    # -- one leaf

    def _find_mention(
        self,
        find: Callable[[Saying], Iterable[Span]],
        *,
        is_receiver: bool = False,
        is_content: bool = False,
        is_moment: bool = False,
    ) -> _Answer:
        """Return where the user said a value for this act, without rejecting it.

        Args:
            find: Finds it in a text.
            is_receiver: Whether it must be in the position of a recipient.
            is_content: Whether words about any act will do.
            is_moment: Whether it is a day, which may be said before the act is requested.
        """
        places = [(saying, span) for saying in self._facts.sayings for span in find(saying)]
        if not places:
            return _UNSAID
        if any(saying.is_denied(span) for saying, span in places):
            return _UNWANTED
        if is_content:
            return _Found("said", places[0][0].source, places[0])
        objections = [
            self._objection(*one, is_receiver=is_receiver, is_moment=is_moment) for one in places
        ]
        if _UNWANTED in objections:
            return _UNWANTED
        if "" not in objections:
            return objections[0]
        saying, span = places[objections.index("")]
        return _Found("said", saying.source, (saying, span))

    def _match_words(self, value: Json, word: Argument) -> _Answer:
        """Judge a harmless value, or one with words for it; returns "" if it has none."""
        if _is_harmless(value, word):
            return _Found("choice")
        if not any(_is_equal(one.value, value) for one in word.meanings):
            return ""
        for saying in self._facts.sayings:
            for one, span in _meant_in(saying, word):
                is_other = not _is_equal(one.value, value) and not saying.is_denied(span)
                if is_other and not self._objection(saying, span, is_receiver=False):
                    return "the user said words for several of its values"
        return self._find_mention(
            lambda saying: (
                span for one, span in _meant_in(saying, word) if _is_equal(one.value, value)
            )
        )

    def _target(self, value: Json, word: Argument) -> _Answer:
        if word.format == "url":
            return self._url(value)
        if word.format == "email":
            return self._recipient(value, word)
        if word.format == "account" and isinstance(value, str):
            if self._is_user(value):
                return _Found("user", "policy")
            return self._find_mention(lambda saying: saying.find_account(value), is_receiver=True)
        return self._match_name(value, ())

    def _match_name(self, value: Json, labels: tuple[str, ...]) -> _Answer:
        """Judge a name or an id by whole words; a bare number needs a word for what it is."""
        if isinstance(value, bool) or value is None:
            return "the user did not say it"
        text = text_of(value)
        if not any(char.isalnum() for char in text):
            return "it is not a word that a user could have said"
        if not text.replace(".", "").isdigit():
            # An id of letters and digits may differ from another only in case.
            is_id = any(map(str.isdigit, text)) and any(map(str.isalpha, text)) and "@" not in text
            return self._find_mention(lambda saying: saying.find(text, is_exact=is_id))
        known = {*labels, *self._name.lower().split("_"), "id", "number", "no", "nr", "#"}

        def numbers(saying: Saying) -> Iterator[Span]:
            dated = bytearray(len(saying.text))
            for span, _ in (*saying.days, *saying.minutes, *saying.durations):
                mark_read(dated, span)
            for span in saying.find(text):
                if not was_read(dated, span) and (
                    saying.is_quoted(span) or saying.is_labelled(span, known)
                ):
                    yield span

        return self._find_mention(numbers)

    def _url(self, value: Json) -> _Answer:
        given = parse_url(value) if isinstance(value, str) else None
        if given is None:
            return "it is not a plain URL"
        if self._act.effect is Effect.READ and given.host in self._policy.hosts:
            return _Found("host", given.host)

        def same(saying: Saying) -> Iterator[Span]:
            for span, other in saying.urls:
                is_secure = given.scheme in (other.scheme, "https") or not other.scheme
                if is_secure and other[1:] == given[1:]:
                    yield span

        found = self._find_mention(same)
        return found if isinstance(found, _Found) else f"{found} as a whole"

    def _recipient(self, value: Json, word: Argument) -> _Answer:
        text = text_of(value)
        if self._is_user(text):
            return _Found("user", "policy")
        if "@" in text and not _is_address(text):
            return "it is more than one plain address"
        found = self._find_mention(lambda saying: saying.find(text), is_receiver=True)
        if isinstance(found, _Found) and not text.isdigit():
            return found
        return self._match_record(
            value, "", found if isinstance(found, str) else "it is a bare number"
        )

    def _ref(self, value: Json, word: Argument) -> _Answer:
        kind = word.record_kind
        found = self._match_name(value, tuple(kind.lower().split()))
        if isinstance(found, str):
            found = self._match_record(value, kind, found)
        if isinstance(found, _Found) and found.at is not None and self._has_rival(*found.at, kind):
            return f"the user named more than one {kind} there, and not in one list"
        if isinstance(found, str) or not word.own:
            return found
        text = fold(text_of(value))
        named = [
            one
            for one in (*self._facts.records, *self._facts.made)
            if one.kind == kind and text in (fold(text_of(one.id)), *map(fold, one.names))
        ]
        if not named and found.rule != "made":
            return f"no trusted source says whose {kind} it is"
        others = [one.fields for one in named if one not in self._facts.made]
        owners = {fold(text_of(fields.get(word.own))) for fields in others}
        return found if owners <= self._users else f"other people have such a {kind}"

    def _has_rival(self, saying: Saying, span: Span, kind: str) -> bool:
        """Whether the clause of the act names another thing of that kind, which may be meant."""
        words = self._act.declaration.arguments.values()
        reading = self._reading(saying)
        if sum(one.record_kind == kind for one in words) > 1 or reading.stance(span) != "act":
            # With two such arguments, the tool can distinguish them.
            return False
        named = [
            other
            for record in (*self._facts.records, *self._facts.made)
            if record.kind == kind
            for other, _ in _namings(record, saying, is_person=False)
            if reading.clause(other) == reading.clause(span)
        ]
        return not all(reading.is_listed(span, other, named, kind) for other in named)

    def _match_record(self, value: Json, kind: str, reason: str) -> _Answer:
        """Judge a value by what a trusted record says of a name; *reason* if none helps."""
        facts, text = self._facts, fold(text_of(value))
        for made in facts.made:
            if kind == made.kind and kind and text == fold(text_of(made.id)):
                return _Found("made", made.source)
        alike = [one for one in facts.records if not kind or one.kind == kind]
        for record in alike:
            if text != fold(text_of(record.id)) or has_lookalike(text_of(value)):
                continue
            if any(text in taken for taken in facts.unclean):
                return "a write of this run may have put it there"
            for saying in facts.sayings:
                for span, grade in _namings(record, saying, is_person=not kind):
                    if saying.is_denied(span) or self._objection(
                        saying, span, is_receiver=not kind
                    ):
                        continue
                    if _is_ambiguous(record, alike, saying, span, grade, is_person=not kind):
                        return "there are several of that name"
                    return _Found("record", record.source, (saying, span))
        return reason

    def _amount(self, value: Json, word: Argument) -> _Answer:
        wanted = parse_number(value)
        if wanted is None:
            return "it is not a plain number"
        amounts = [(saying, one) for saying in self._facts.sayings for one in saying.amounts]
        places = [(saying, one.span) for saying, one in amounts if one.value == wanted]
        if not places:
            return "the user did not say such an amount"
        if any(saying.is_denied(span) for saying, span in places):
            return _UNWANTED
        if self._act.effect is Effect.READ:
            return _Found("said", places[0][0].source)
        asked = [one for one in amounts if self._is_of_act(one[0], one[1].span)]
        if wanted not in {one.value for _, one in asked}:
            return _OF_ANOTHER
        return self._match_party(wanted, asked)

    def _is_of_act(self, saying: Saying, span: Span) -> bool:
        stance = self._reading(saying).stance(span)
        return stance == "act" or (stance == "stated" and self._is_only_act())

    def _match_party(self, wanted: Decimal, asked: list[tuple[Saying, Number]]) -> _Answer:
        """Judge whether the amount belongs to the recipients or objects of the call."""
        is_single = {one.value for _, one in asked} == {wanted}
        if not self._parties:
            saying = asked[0][0]
            return _Found("said", saying.source) if is_single else _SEVERAL
        for saying, span in self._parties:
            reading = self._reading(saying)
            clause, part = reading.clause(span), saying.part(span[0])
            own = [
                one for its, one in asked if its is saying and reading.clause(one.span) == clause
            ]
            beside = {one.value for one in own if saying.part(one.span[0]) == part}
            if beside == {wanted} or {one.value for one in own} == {wanted}:
                return _Found("said", saying.source)
            is_told = reading.stance(span) == "stated"
            if not own and is_single and (is_told or all(self._is_loose(*one) for one in asked)):
                return _Found("said", asked[0][0].source)
        return _SEVERAL

    def _is_loose(self, saying: Saying, amount: Number) -> bool:
        """Whether nobody is named in the clause of an amount."""
        reading = self._reading(saying)
        return reading.names_nobody(reading.clause(amount.span))

    def _moment(self, value: Json, word: Argument) -> _Answer:
        if not isinstance(value, str):
            return self._match_name(value, ())
        sayings = self._facts.sayings
        today = next((saying.today for saying in sayings if saying.today), None)
        moment = parse_moment(value, today=today)
        if moment is None:
            return self._match_name(value, ())
        source = ""
        if moment.day is not None:
            found = self._find_mention(
                lambda saying: (span for span, days in saying.days if moment.day in days),
                is_moment=True,
            )
            if isinstance(found, str):
                return "the user did not say that day" if found == _UNSAID else found
            source = found.source
        if moment.minute is not None:
            minutes = {one for saying in sayings for _, one in saying.minutes}
            # The end follows from the start and the duration.
            begins = {
                (moment.minute - more) % 1440 for saying in sayings for _, more in saying.durations
            }
            # A day without a time means the whole day, from its first minute to its last.
            is_end = moment.minute in (0, 23 * 60 + 59)
            is_whole_day = moment.day is not None and is_end and not minutes
            if not is_whole_day and not minutes & {moment.minute, *begins}:
                return "the user did not say that hour"
            source = source or next(saying.source for saying in sayings if saying.minutes)
        return _Found("said", source)

    def _secret(self, value: Json, word: Argument) -> _Answer:
        text = text_of(value)
        return self._find_mention(lambda saying: saying.find(text, is_exact=True))

    def _choice(self, value: Json, word: Argument) -> _Answer:
        return self._match_name(value, ())

    def _content(self, value: Json, word: Argument) -> _Answer:
        text = text_of(value)
        if not text.strip():
            return _Found("default")
        if self._is_to_user() and not self._is_strict:
            return _Found("user", "policy")
        if self._facts.private:
            return f"the context holds private data of {self._facts.private}"
        found = self._find_mention(lambda saying: saying.find(text), is_content=True)
        if isinstance(found, _Found) or self._policy.words == "said":
            return found
        return _Found("open") if self._policy.words == "open" else self._without_links(text)

    def _is_to_user(self) -> bool:
        """Whether the user is the only recipient."""
        words = self._act.declaration.arguments
        named = [name for name, word in words.items() if word.word == "recipient"]
        given = [self._act.arguments.get(name) for name in named]
        gets = [text_of(leaf) for value in given for leaf in leaves(value) if leaf]
        # A tool that has recipients but is given none sends it to nobody else.
        return all(map(self._is_user, gets)) if gets else bool(named)

    def _is_user(self, text: str) -> bool:
        return fold(text) in self._users and not has_lookalike(text)

    def _without_links(self, text: str) -> _Answer:
        """Pass words, but require that anything like an address, number or account was said."""
        for part in suspects_in(text):
            if not any(
                saying.find(part) or saying.find_account(part) for saying in self._facts.sayings
            ):
                return f"{part!r} in it may be an address or a number that the user did not say"
        return _Found("links")


_RULES: Mapping[str, Callable[[_Judge, Json, Argument], _Answer]] = {
    "target": _Judge._target,  # pyright: ignore[reportPrivateUsage]
    "recipient": _Judge._recipient,  # pyright: ignore[reportPrivateUsage]
    "ref": _Judge._ref,  # pyright: ignore[reportPrivateUsage]
    "amount": _Judge._amount,  # pyright: ignore[reportPrivateUsage]
    "day": _Judge._moment,  # pyright: ignore[reportPrivateUsage]
    "time": _Judge._moment,  # pyright: ignore[reportPrivateUsage]
    "secret": _Judge._secret,  # pyright: ignore[reportPrivateUsage]
    "choice": _Judge._choice,  # pyright: ignore[reportPrivateUsage]
    "content": _Judge._content,  # pyright: ignore[reportPrivateUsage]
}


def _is_equal(one: object, value: Json) -> bool:
    # True is not 1 here.
    return type(one) is type(value) and one == value


def _is_harmless(value: Json, word: Argument) -> bool:
    is_empty = value in ([], {}, None)
    return any(one is None if is_empty else _is_equal(one, value) for one in word.choices)


def _meant_in(saying: Saying, word: Argument) -> list[tuple[Meaning, Span]]:
    """Return where words for a value are; "read and write" is not "read"."""
    found = [
        (one, span) for one in word.meanings for text in one.words for span in saying.find(text)
    ]
    return [
        (one, span)
        for one, span in found
        if not any(
            start <= span[0] and span[1] <= end and (start, end) != span
            for _, (start, end) in found
        )
    ]


def _names_things(reading: Reading) -> bool:
    return reading.names_things


def suspects_in(text: str) -> list[str]:
    """Return what in *text* may be an address, a link, a number or an account, however spelt."""
    found: list[str] = []
    words = text.split()
    cores = [word.strip(_EDGES) or word for word in words]
    at = 0
    while at < len(words):
        end = at
        # Neighbouring words may be one thing that was taken apart.
        while end < len(words) and (_is_suspect(cores, end) or _is_taken_apart(words, end)):
            end += 1
        if end > at:
            found.append(" ".join(cores[at:end]))
        at = max(end, at + 1)
    return [part for part in found if part]


# A schema may refer to itself.
_MAX_REFERENCES = 5
_EDGES = "\"'\u201c\u201d\u2018\u2019«»()[].,;:!?…\u2013\u2014-"
_PLAIN = re.compile(r"[^\W\d_]+(?:['\u2019\u2013-][^\W\d_]+)*")
_SPELT = frozenset(("dot", "punkt", "point", "punto", "period", "at", "slash", "www", "http"))
_MARKS = frozenset(
    ("-", "--", "\u2013", "\u2014", "...", "\u2026", ":", "/", "&", "*", "\u2022", "+")
)


def _is_taken_apart(words: list[str], at: int) -> bool:
    """Whether a dot there may join its neighbours: "evil (.) io", "evil .io"."""
    word, before = words[at], words[at - 1] if at else ""
    is_end = before[-1:] == "." and before.count(".") == 1 and word[0].islower()
    return is_end or (word[0] == "." and word[1:2].isalnum())


def _is_suspect(cores: list[str], at: int) -> bool:
    core = cores[at]
    if not any(map(str.isalnum, core)):
        # A mark alone; some are written like this between words.
        return core not in _MARKS and not core.isalpha()
    if core and (not _PLAIN.fullmatch(core) or has_lookalike(core)):
        return True
    if len(core) == 1:
        # Letters one by one; a single one is an article or a list marker.
        return any(len(one) == 1 for one in cores[max(0, at - 1) : at] + cores[at + 1 : at + 2])
    return core.lower() in _SPELT - {"at"} or (
        core.lower() == "at" and any(one.lower() in _SPELT - {"at"} for one in cores[at : at + 4])
    )


def _is_address(text: str) -> bool:
    return (
        text.isprintable() and text.count("@") == 1 and not re.search(r"[\s<>,;:\"()\[\]\\]", text)
    )


def _namings(record: Known, saying: Saying, *, is_person: bool) -> Iterator[tuple[Span, int]]:
    """Yield where the user names *record*: 2 by a whole name, 1 by a part of one."""
    if not is_person:
        for name in dict.fromkeys((*record.names, text_of(record.id))):
            for span in saying.find_part(name):
                yield span, 1
    for name in record.names:
        for span in saying.find(name):
            yield span, 2
        if is_person and len(parts := name.split()) > 1:
            for part in parts:
                for span in saying.find(part):
                    if saying.is_name(span, parts):
                        yield span, 1


def _is_ambiguous(
    record: Known,
    alike: Iterable[Known],
    saying: Saying,
    span: Span,
    grade: int,
    *,
    is_person: bool,
) -> bool:
    return any(
        other_grade >= grade and other_span[0] < span[1] and span[0] < other_span[1]
        for other in alike
        if other.id != record.id
        for other_span, other_grade in _namings(other, saying, is_person=is_person)
    )
