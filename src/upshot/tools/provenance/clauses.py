"""Which requested act a value in the user's text belongs to: the clauses of a text and their verbs.

A text is cut into clauses, each with its leading verb as the head. A value vouches for an act only
if the user asked for that act: in a clause with the act's own verb, or in one that asks for nothing
("It is for Zoe."). A recipient must also be where English puts it: right after the verb, or after
"to" and the like. Anything that is not understood belongs to no act, so the user is asked.

Only closed classes of words are known (``vocabulary``). A word in none of them is read as the verb
of another act, which costs a question and lets nothing pass.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from upshot.tools.provenance.saying import Saying, Span, mark_read, was_read
from upshot.tools.provenance.vocabulary import (
    ALSO,
    ANDS,
    APART,
    ARTICLES,
    BESIDE,
    COPULAS,
    DIRECT,
    DOERS,
    FINITE,
    GOES_TO,
    INCLUDES,
    JOINS,
    LABELS,
    LIGHT,
    LOOKS,
    MONEY,
    NESTS,
    NOT_TO,
    ONWARD,
    OWN_ARTICLES,
    PARTICLES,
    PASSED,
    PAST,
    PEOPLE,
    PLAINLY,
    REFERS,
    SOCIAL,
    SUBJECTS,
    TO,
    VERBS,
)

Stance: TypeAlias = Literal["act", "stated", "looked", "other"]
"""The relation of a clause to an act: it asks for the act; it asks for nothing; it asks to look at
something; it asks for another act."""

ANSWER = "answer "
"""The start of the source of a saying that answers a question."""

_EDGES = "\"'`\u201c\u201d\u2018\u2019«»([{<)]}>*_~….,;:!?¿¡-\u2013\u2014"
# What may come before the verb of a clause: "please go ahead and pay Ada" asks to pay.
_FILLER = re.compile(
    r"(?:please|pls|kindly|then|also|now|just|so|and|und|et|y|finally|first(?:ly)?|second(?:ly)?"
    r"|third(?:ly)?|next|afterwards?|after that|if so|if yes|ok(?:ay)?|hi|hey|hello|there|well|yes"
    r"|sure|directly|immediately|quickly|simply|bitte|dann|auch|por favor|s'il vous plaît"
    r"|(?:can|could|would|will|may) you|you (?:can|could|should|must|may|need to|have to)"
    r"|(?:i|we)(?:['\u2019]d| would) (?:like|love)(?: you)? to|(?:i|we) (?:want|need)(?: you)? to"
    r"|(?:i|we) (?:can|could|should|must|need to|have to|will|shall)|make sure(?: to| that you)?"
    r"|be sure to|remember to|(?:don['\u2019]t|do not) forget to|do not|don['\u2019]t|never|not"
    r"|go ahead and|feel free to|start|help me(?: to)?|let['\u2019]s|let us"
    r"|it(?:['\u2019]s| is) time to|your (?:task|job) is to|\d{1,2}[.)]|[-*\u2022])"
    r"(?![\w'\u2019@.])[\s,:]*",
    re.IGNORECASE,
)
_ENDS = re.compile(r"[.!?;][\"'\u201d\u2019)]*(?=\s|$)|\n")
_AGAINST = re.compile(
    r"\b(?:skip|block|ignor|refus|remov|exclud|omit|avoid|reject|ban|drop|leav(?:e|es|ing) out"
    r"|left out|forget|unsubscrib|distrust|blacklist|mut|mistrust|hat|dislik|declin|revok|bar|fir"
    r"|sack|beware of|keep away|stay away|spam|scam|fraud\w*|phish)"
    r"(?:e|es|ed|s|d|ing|ped|ping|ted|ting|ned|ning|red|ring)?\b",
    re.IGNORECASE,
)
_DOTTED = re.compile(r"\w\.\w")
# Such as an IBAN.
_ACCOUNT = re.compile(r"[A-Za-z]{2}\d[\w-]{8,}")
# A quoted name, a file, an id.
_THING = re.compile(r"^[\"'\u201c\u2018«]\w|\w\.\w|[^\W\d_]\d|\d[^\W\d_]|^#?\d+\W*$")
_NO_VERBS = SUBJECTS | ONWARD | LABELS
_NO_NAMES = VERBS | SUBJECTS | ONWARD | JOINS
# What may follow a name that has an article: "the GB29 account", "the Smiths to dinner".
_AFTER_NAMES = ONWARD | SUBJECTS | JOINS | LABELS | BESIDE | MONEY | GOES_TO
_NO_THINGS = PARTICLES | {"it", "this", "that"}
# How many words back the word may be that governs a value, and how many may lie between.
_MAX_BACK = 60
_MAX_INNER = 200
_AFTER_HEAD = 4


class Clause(NamedTuple):
    """A clause, as indexes into the words of a text.

    Attributes:
        start: Its first word.
        end: One past its last word.
        head: Its verb, None if it asks for nothing.
    """

    start: int
    end: int
    head: int | None


def clauses_of(saying: Saying) -> list[Clause]:
    """Return the clauses of a text, in order."""
    words, found = saying.words, list[Clause]()
    # The answer to a question may be just a name.
    is_whole = not saying.source.startswith(ANSWER)
    ends = [match.end() for match in _ENDS.finditer(saying.text)]
    start = 0
    for at in range(1, len(words) + 1):
        if at < len(words):
            begin, until = words[at - 1][1][0], words[at][1][0]
            # Whether a sentence ends between the two words.
            if bisect_right(ends, until) == bisect_right(ends, begin):
                continue
        found += _parts_of(saying, start, at, is_whole=is_whole)
        start = at
    return found


def _parts_of(saying: Saying, start: int, end: int, *, is_whole: bool) -> Iterator[Clause]:
    """Yield the clauses of the sentence from *start* to *end*."""
    words = saying.words
    begun, head = start, _head(saying, start, end, is_first=is_whole)
    for at in range(start + 1, end):
        before, word = words[at - 1][0], words[at][0]
        is_joined = core(before) in JOINS or before[-1] in ",:(" or word[0] in "(-\u2013\u2014"
        if not is_joined or core(word) in JOINS:
            continue
        verb = _head(saying, at, end, is_first=False)
        if verb is not None or core(word) in SUBJECTS - ONWARD:
            yield Clause(begun, at, head if head is None or head < at else None)
            begun, head = at, verb
    yield Clause(begun, end, head)


def _head(saying: Saying, at: int, end: int, *, is_first: bool) -> int | None:
    """Return the verb of the clause at *at*; None if it asks for nothing or continues another."""
    text, words, begun = saying.text, saying.words, at
    place, last = words[at][1][0], words[end - 1][1][1]
    while (match := _FILLER.match(text, place, last)) is not None:
        place = match.end()
    while at < end and words[at][1][0] < place:
        at += 1
    if at >= end:
        return None
    word = words[at][0]
    name = core(word)
    if not name or is_value(word) or _DOTTED.search(word) or name in SOCIAL:
        return None
    if (name not in VERBS and name in _NO_VERBS) or (name in LABELS and word[-1] == ":"):
        return None
    after = {core(one) for one, _ in words[at + 1 : min(end, at + _AFTER_HEAD)]}
    if is_first and begun == at and (after & FINITE or any(one.endswith("n't") for one in after)):
        # "Order 7 was never delivered."
        return None
    if name in VERBS or is_first or _is_title(saying, begun):
        return at
    # A name, or the start of a description of the object: "titled", "including".
    is_described = name.endswith(("ed", "ing")) and not word[0].isupper()
    return None if is_named(word) or is_described else at


def _is_title(saying: Saying, at: int) -> bool:
    """Whether a capital there means nothing, as in "Pay Ada And Nudge Bob"."""
    before = saying.words[at - 1][0] if at else ""
    return before[:1].isupper() and core(before) in JOINS


def core(word: str) -> str:
    """Return *word* in lower case without the marks around it."""
    return word.strip(_EDGES).lower()


def is_value(word: str) -> bool:
    """Whether *word* cannot be a verb: an address, a number, something quoted."""
    return "@" in word or word[0] in "\"'\u201c\u2018«$€£¥#<" or any(map(str.isdigit, word))


def is_named(word: str) -> bool:
    """Whether *word* is written like a name."""
    bare = word.strip(_EDGES)
    is_capital = bare[:1].isupper() and (len(bare) == 1 or not bare.isupper())
    return is_capital and bare.lower() not in _NO_NAMES


def _is_genitive(word: str) -> bool:
    bare = word.rstrip('.,;:!?)"\u201d')
    return bare.lower().endswith(("'s", "\u2019s")) and bare[:1] not in "'\u2018"


class Reading:
    """The relation of the clauses of a text to one act.

    Args:
        saying: The text.
        verbs: The places of the verbs by which the user asks for the act.
    """

    def __init__(self, saying: Saying, verbs: Iterable[Span]) -> None:
        self._saying = saying
        self._words = saying.words
        self._starts = [span[0] for _, span in saying.words]
        self._clauses = clauses_of(saying)
        self._firsts = [clause.start for clause in self._clauses]
        self._verbs = {self._place(span[0]): self._place(span[1] - 1) for span in verbs}
        self._nouns = sorted(self._verbs)
        self._stances: list[Stance] = [self._stance_of(clause) for clause in self._clauses]

    def _place(self, at: int) -> int:
        """Return the index of the word that contains the character *at*."""
        return max(0, bisect_right(self._starts, at) - 1)

    def _locate(self, span: Span) -> tuple[Clause, Stance, int]:
        place = self._place(span[0])
        number = bisect_right(self._firsts, place) - 1
        return self._clauses[number], self._stances[number], place

    def _stance_of(self, clause: Clause) -> Stance:
        if clause.head in self._verbs or self._is_gerund(clause):
            return "act"
        if clause.head is None:
            return "stated"
        name = core(self._words[clause.head][0])
        next_noun = bisect_right(self._nouns, clause.head)
        if name in LIGHT and next_noun < len(self._nouns):
            noun = self._nouns[next_noun]
            # "Make a payment to Ada", but not "get the mail for the payment".
            before = {core(self._words[at][0]) for at in range(clause.head, min(noun, clause.end))}
            if noun < clause.end and not before & (GOES_TO | {"for", "from", "of", "by", "in"}):
                return "act"
        return "looked" if name in LOOKS else "other"

    def _is_gerund(self, clause: Clause) -> bool:
        """Whether a clause that asks for nothing starts with the verb: "Sharing it is fine"."""
        return clause.start in self._verbs and core(self._words[clause.start][0]).endswith("ing")

    @cached_property
    def asks(self) -> bool:
        """Whether the user asks for the act."""
        return "act" in self._stances

    @cached_property
    def asks_for_another(self) -> bool:
        """Whether the user asks for another act, or may do so."""
        return "other" in self._stances

    @cached_property
    def refers(self) -> bool:
        """Whether the user asks for the act on "it" or the like, which was looked at before."""
        return any(
            core(self._words[at][0]) in REFERS
            for clause, stance in zip(self._clauses, self._stances, strict=True)
            if stance == "act"
            for at in range(clause.start, clause.end)
        )

    def stance(self, span: Span) -> Stance:
        """Return the relation of the clause that contains *span* to the act."""
        return self._locate(span)[1]

    def clause(self, span: Span) -> Clause:
        """Return the clause that contains *span*."""
        return self._locate(span)[0]

    def is_listed(self, span: Span, other: Span, named: Iterable[Span], kind: str) -> bool:
        """Whether two things of a *kind* are in one list; *named* are all that are named."""
        first, last = sorted((span, other))
        return all(
            core(word) in ANDS | ARTICLES | {"", kind, f"{kind}s"}
            or any(start < until and begin < end for start, end in (*named, span))
            for word, (begin, until) in self._words
            if begin < last[0] and first[1] < until
        )

    def names_nobody(self, clause: Clause) -> bool:
        """Whether *clause* contains no name and no address."""
        first = clause.start if clause.head is None else clause.head + 1
        return not any(map(self._is_party, range(first, clause.end)))

    @cached_property
    def _against(self) -> frozenset[int]:
        """The clauses that ask for nothing and speak against what they contain."""
        text, words = self._saying.text, self._words
        return frozenset(
            clause.start
            for clause, stance in zip(self._clauses, self._stances, strict=True)
            if stance == "stated"
            and _AGAINST.search(text, words[clause.start][1][0], words[clause.end - 1][1][1])
        )

    def is_against(self, span: Span) -> bool:
        """Whether the user excluded it, or speaks against it."""
        clause, _, place = self._locate(span)
        if clause.start in self._against:
            return True
        for at in range(place - 1, max(clause.start, place - _MAX_BACK) - 1, -1):
            word = self._words[at][0]
            name = core(word)
            if name in APART:
                return True
            if not (not name or name in PASSED or is_value(word) or is_named(word)):
                return False
        # What follows a "but" without a new order: "all but Eve".
        before = core(self._words[clause.start - 1][0]) if clause.start else ""
        return before in APART and clause.head is None

    def receives(self, span: Span, *, has_amount: bool) -> bool:
        """Whether *span* is the recipient of the act.

        Args:
            span: The place.
            has_amount: Whether the act pays; "with Bob" is then not a recipient.
        """
        clause, stance, place = self._locate(span)
        if self._is_owner(span, clause) or self._is_subject(span, clause):
            return False
        if stance == "act":
            if self._describes(span, clause) or self._has_rivals(clause, has_amount=has_amount):
                return False
            return self._is_governed(clause, place, span, has_amount=has_amount)
        return stance == "stated" and self._is_labelled(clause, place)

    def _is_owner(self, span: Span, clause: Clause) -> bool:
        """Whether something they own is meant: "Bob's card", or "Ada and Bob's card"."""
        last = self._place(span[1] - 1)
        listed = self._words[last : self._list_end(last, clause)]
        return any(map(_is_genitive, (word for word, _ in listed)))

    def _list_end(self, last: int, clause: Clause) -> int:
        """Return the index after the list of names and addresses that continues at *last*."""
        at = last + 1
        while at < clause.end:
            word = self._words[at][0]
            if core(word) and not (core(word) in ANDS or is_named(word) or "@" in word):
                break
            at += 1
        return at

    def _name_end(self, last: int, clause: Clause) -> int:
        """Return the index of the last word of the name that contains the word at *last*."""
        while last + 1 < clause.end and self._words[last][0][-1] not in ",;:)":
            if not is_named(self._words[last + 1][0]):
                break
            last += 1
        return last

    def _describes(self, span: Span, clause: Clause) -> bool:
        """Whether it only says which thing is meant: "the Bob invitation"."""
        place, last = self._place(span[0]), self._name_end(self._place(span[1] - 1), clause)
        if place == clause.start or core(self._words[place - 1][0]) not in ARTICLES:
            return False
        if last + 1 >= clause.end or self._words[last][0][-1] in ",;:)":
            return False
        word = self._words[last + 1][0]
        name = core(word)
        return bool(name) and not (is_value(word) or name in _AFTER_NAMES)

    def _is_subject(self, span: Span, clause: Clause) -> bool:
        """Whether they act themselves, or may not be meant: "the mail Eve wrote"."""
        last = self._name_end(self._place(span[1] - 1), clause)
        is_last = last + 1 >= clause.end or self._words[last][0][-1] in ",;:)"
        if is_last or self._is_gerund(clause):
            return False
        name = core(self._words[last + 1][0])
        return name in PAST or name in DOERS or name.endswith("ed")

    def _is_governed(self, clause: Clause, place: int, span: Span, *, has_amount: bool) -> bool:
        """Whether the act's verb, or a "to" that belongs to it, comes before the value."""
        ends = {self._verbs[at] for at in self._heads(clause)}
        value, is_apart, is_beside = self._words[place][0], False, False
        is_packed = (value[0], value.rstrip(".,;:")[-1]) in (("<", ">"), ("(", ")"))
        for at in range(place - 1, max(clause.start, place - _MAX_BACK) - 1, -1):
            word = self._words[at][0]
            name = core(word)
            if at in ends:
                return True
            if name in GOES_TO or (name == "at" and "@" in value):
                if (name == "with" and has_amount) or self._is_torn(clause, at, span):
                    return False
                if (
                    name in TO
                    and self._is_direct_verb(clause)
                    and self._direct_end(clause) is not None
                ):
                    # "Invite Ada to Bob"
                    return False
                return self._belongs_to_act(clause, at, has_amount=has_amount)
            if is_beside and not is_packed and (word[-1] in ",;" or name in ANDS):
                # "Pay Ada, Nudge bob@x.io": it may be a verb.
                return False
            is_apart = is_apart or word[-1] in ",;" or name in ANDS
            if name in ANDS or name in BESIDE or not name:
                continue
            if not (is_value(word) or is_named(word) or name in MONEY):
                return False
            # Another item of a list, or the name next to its address.
            is_beside = not is_apart and "@" in value and (is_named(word) or is_packed)
            if not (is_apart or is_beside):
                return False
        return False

    def _is_torn(self, clause: Clause, at: int, span: Span) -> bool:
        """Whether the "to" at *at* may belong to the thing before it, judging by the rest.

        A verb has one object and one "to": with a second one, "the bill to Bob" is a thing. What a
        "too" adds may be added to the thing.
        """
        first = self._object_start(clause)
        things = [word for word, _ in self._words[first:at] if self._is_thing(word)]
        if not things:
            return False
        if core(self._words[at][0]) in INCLUDES:
            # In the thing, or among the recipients if these have no names.
            return any(
                core(before) in GOES_TO and (is_named(word) or "@" in word)
                for (before, _), (word, _) in pairwise(self._words[first:at])
            )
        last = self._place(span[1] - 1)
        behind = self._list_end(last, clause)
        rest = [core(word) for word, _ in self._words[behind : min(clause.end, behind + 2)]]
        before = [word for word, _ in self._words[at + 1 : self._place(span[0])]]
        is_added = bool(ALSO & {*rest[:1], " ".join(rest), *map(core, before)})
        if is_added and any(is_named(word) or "@" in word or core(word) in ANDS for word in before):
            return not any(map(_THING.search, things))
        if not rest or self._words[behind - 1][0][-1] in ",;:(":
            return False
        word = self._words[behind][0]
        is_second = rest[0] in ("to", "an", "à") and self._is_somebody(behind + 1)
        return is_second or rest[0] in OWN_ARTICLES or word[0] in "$€£¥" or word[0].isdigit()

    def _is_thing(self, word: str) -> bool:
        """Whether an object of the verb may be, or start with, that word."""
        name = core(word)
        return bool(name) and not (
            self._is_item(word) or name in GOES_TO or name in _NO_THINGS or name in ARTICLES
        )

    def _heads(self, clause: Clause) -> list[int]:
        """Return where the act's verb is used as a verb: "the mail" does not ask to mail."""
        heads = [clause.start] if self._is_gerund(clause) else []
        return [*heads, clause.head] if clause.head in self._verbs else heads

    def _belongs_to_act(self, clause: Clause, at: int, *, has_amount: bool) -> bool:
        """Whether the "to" there belongs to the act, and not to something inside it."""
        heads = self._heads(clause)
        first = self._verbs[heads[-1]] if heads else clause.start
        if at - first > _MAX_INNER:
            return False
        inner = [core(self._words[one][0]) for one in range(first + 1, at)]
        if any(name in NESTS or name in PAST for name in inner):
            return False
        if inner and (
            inner[-1] in NOT_TO or (len(inner) > 1 and inner[-1].endswith(("ed", "ing")))
        ):
            return False
        words = [self._words[one][0] for one in range(first + 1, at)]
        # "Pay 50 euros for a gift to Bob"
        return not has_amount or all(self._is_plain(word) for word in words)

    def _is_plain(self, word: str) -> bool:
        """Whether it only says how much, or to whom."""
        name = core(word)
        return self._is_item(word) or name in BESIDE or name in GOES_TO or name in PLAINLY

    def _has_rivals(self, clause: Clause, *, has_amount: bool) -> bool:
        """Whether the clause names several possible recipients outside a single list.

        It is then unclear which of them it is: "Send Ada to Bob", "Pay Bob and 50 euros to Ada".
        """
        direct = self._direct_end(clause)
        if direct is not None and self._is_direct_verb(clause):
            return False
        count, end = int(direct is not None), direct
        for at in range(self._object_start(clause), clause.end - 1):
            name = core(self._words[at][0])
            if name not in TO and (name != "with" or has_amount):
                continue
            behind = self._party_end(at + 1, clause)
            if at == direct:
                # A name right before it is the thing: "Send Ada to the printer".
                is_article = core(self._words[at + 1][0]) in ARTICLES
                count += is_article or behind is not None or self._is_party(at + 1)
            elif behind is not None and self._belongs_to_act(clause, at, has_amount=has_amount):
                count += direct is not None or end is None or not self._is_joined(end, at)
                end = behind
        return count > 1

    def _is_joined(self, end: int, at: int) -> bool:
        """Whether the "to" at *at* continues a list: "the plan to Ada and the bill to Bob"."""
        between = [self._words[one][0] for one in range(end - 1, at)]
        return any(word[-1] == "," or core(word) in ANDS for word in between)

    def _object_start(self, clause: Clause) -> int:
        """Return the index of the first word after the act's verb."""
        heads = self._heads(clause)
        return self._verbs[heads[-1]] + 1 if heads else clause.start

    def _is_direct_verb(self, clause: Clause) -> bool:
        """Whether the object of the verb is the recipient: "Invite Ada to Slack"."""
        return clause.head is not None and core(self._words[clause.head][0]) in DIRECT

    def _direct_end(self, clause: Clause) -> int | None:
        """Return the end of the list of people named right after the verb, or None."""
        at = self._object_start(clause)
        while self._heads(clause) and at < clause.end and core(self._words[at][0]) in BESIDE:
            at += 1
        if not self._heads(clause) or at >= clause.end:
            return None
        word, span = self._words[at]
        is_thing = (is_value(word) or _THING.search(word) is not None) and not (
            "@" in word or _ACCOUNT.match(word)
        )
        is_other = is_thing or self._is_owner(span, clause) or self._describes(span, clause)
        return self._list_end(at, clause) if self._is_party(at) and not is_other else None

    def _party_end(self, at: int, clause: Clause) -> int | None:
        """Return the end of the list of possible recipients that starts there, or None."""
        first = at
        while at < clause.end and core(self._words[at][0]) in BESIDE:
            at += 1
        if at >= clause.end or not self._is_party(at):
            beside = {core(word) for word, _ in self._words[first:at]}
            return at if beside & PEOPLE else None
        span = self._words[at][1]
        is_other = self._is_owner(span, clause) or self._describes(span, clause)
        return None if is_other else self._list_end(at, clause)

    def _is_party(self, at: int) -> bool:
        """Whether a name or an address is there."""
        word, span = self._words[at]
        is_account = any(map(str.isdigit, word)) and word[0].isalpha()
        return ("@" in word or is_named(word) or is_account) and not was_read(self._dated, span)

    @cached_property
    def _dated(self) -> bytearray:
        """Which characters belong to a date."""
        dated = bytearray(len(self._saying.text))
        for span, _ in self._saying.days:
            mark_read(dated, span)
        return dated

    def _is_somebody(self, at: int) -> bool:
        word = self._words[at][0]
        return is_value(word) or is_named(word) or core(word) in BESIDE

    def _is_labelled(self, clause: Clause, place: int) -> bool:
        """Whether the text says what the value is: "Her address is ada@x.io", "Recipient: Ada"."""
        if place - clause.start > _MAX_BACK:
            return False
        words = [self._words[at][0] for at in range(clause.start, place)]
        names = [core(word) for word in words]
        values = [
            is_value(word) or (is_named(word) and name not in LABELS) or name in MONEY
            for word, name in zip(words, names, strict=True)
        ]
        rest = [name for name, is_one in zip(names, values, strict=True) if name and not is_one]
        if not all(self._is_item(word) for word, _ in self._words[place : clause.end]):
            return False
        if all(name in ANDS for name in rest):
            # Only values: the answer to a question, or the recipients of an act that names nobody.
            return self._saying.source.startswith(ANSWER) or all(
                self.names_nobody(one)
                for one, stance in zip(self._clauses, self._stances, strict=True)
                if stance == "act"
            )
        is_said = any(name in COPULAS for name in names) or any(word[-1] == ":" for word in words)
        return is_said and not values[0] and all(name in LABELS or name in ANDS for name in rest)

    def _is_item(self, word: str) -> bool:
        name = core(word)
        return not name or is_value(word) or is_named(word) or name in MONEY or name in ANDS

    @cached_property
    def names_things(self) -> bool:
        """Whether a clause that asks for the act itself says what it is about."""
        text = self._saying
        known = bytearray(len(text.text))
        spans = [span for span, _ in (*text.days, *text.minutes, *text.durations)]
        for span in (*spans, *(one.span for one in text.numbers)):
            mark_read(known, span)
        return any(
            _THING.search(word) is not None and not was_read(known, span)
            for clause, stance in zip(self._clauses, self._stances, strict=True)
            if stance == "act"
            for word, span in self._words[clause.start : clause.end]
        )
