"""What a user's text mentions: words, addresses, numbers, dates and times.

This module judges nothing, and reads nothing that others wrote. What cannot be read with certainty
is not read at all: it then vouches for nothing, and the user is asked.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

Span: TypeAlias = tuple[int, int]

# A quotation mark or bracket before a word, and punctuation after it, are not part of it.
_QUOTES = "\"'`\u201c\u201d\u2018\u2019«»"
_BEFORE = f"{_QUOTES}([{{<*_~…¿¡"
_AFTER = f"{_QUOTES})]}}>*_~….,;:!?"
# Addresses in a list without spaces are separate words.
_WORD = re.compile(r"[^\s,;|]+@[^\s,;|]+|\S+")
_NEGATION = re.compile(
    r"\b(?:not|never|no(?![.\s]*\d)|nor|neither|without|except|excluding|unless|avoid|cannot"
    r"|instead of|rather than|other than|apart from"
    r"|nicht|kein\w*|nie|ohne|außer|statt|pas|jamais|sans|sauf|nunca|excepto)\b(?! forget\b)"
    r"|n['\u2019]t\b(?! forget\b)",
    re.IGNORECASE,
)
# Where a clause ends, so that a negation before it does not apply after it.
_CLAUSE = re.compile(
    r"[.!?;](?=\s|$)|\n|\b(?:but|sondern|aber|mais|sino)\b(?! not\b)", re.IGNORECASE
)
_PART = re.compile(r"[.!?;](?=\s|$)|\n|,(?=\s)|\b(?:and|then)\b", re.IGNORECASE)
_NEXT = re.compile(r",\s*(?:(?:and|so|then|please|just)\s+)*$", re.IGNORECASE)
_LISTED = re.compile(r"\s*(?:,|(?:and|or|nor)\b)", re.IGNORECASE)
_PART_OF_NAME = re.compile(
    r"\b(?:(?P<start>(?:start|begin)(?:s|ing|ning)? with)|end(?:s|ing)? (?:in|with)) "
    r"(?P<part>\"[^\"]*\"|'[^']*'|\S+)",
    re.IGNORECASE,
)
_MAX_NEXT = 40
_MAX_MARKS = 20
# How many words back the word may be that says what a list of numbers is.
_MAX_LISTED = 40
_SOURCE = re.compile(r"\b(?:from|by)\s+\W?$", re.IGNORECASE)

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?:,?\s+(?P<year>\d{4})(?![\d:]))?"
_DATES = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        r"(?<![\d-])(?P<year>\d{4})-(?P<number>\d{1,2})-(?P<day>\d{1,2})(?!\d|-)",
        r"(?<![\d.])(?P<day>\d{1,2})\.(?P<number>\d{1,2})\.(?P<year>\d{4})(?!\d)",
        r"(?<![\d/])(?P<one>\d{1,2})/(?P<other>\d{1,2})/(?P<year>\d{4})(?![\d/])",
        rf"\b{_MONTH}\s+{_DAY}(?![\d:])\b{_YEAR}",
        rf"(?<!\d)(?<!:){_DAY}\s+(?:of\s+)?{_MONTH}{_YEAR}",
    )
)
_ONWARD = re.compile(r"\s*(?:to|until|till|through|and|[-\u2013])\s+(?:the\s+)?", re.IGNORECASE)
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_RELATIVE = re.compile(
    r"\b(?:(?P<after>day after tomorrow)|(?P<word>today|tonight|tomorrow|yesterday)"
    rf"|(?P<next>next\s+)?(?P<weekday>{'|'.join(_WEEKDAYS)})"
    r"|in\s+(?P<count>\w+)\s+(?P<unit>day|week)s?)\b",
    re.IGNORECASE,
)
_OFFSETS = {"today": 0, "tonight": 0, "tomorrow": 1, "yesterday": -1}
_COUNTS = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
}
_TIME = re.compile(
    r"(?<![\w:.,/-])(?:(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::00)?(?:\s*(?P<half>[ap])\.?m\b)?"
    r"|(?P<only>1[0-2]|0?[1-9])\s*(?P<its>[ap])\.?m\b|(?P<name>noon|midnight)\b)(?![\d:])",
    re.IGNORECASE,
)
_DURATION = re.compile(
    r"\b(?P<count>\d+|half an|an?|"
    + "|".join(_COUNTS)
    + r")[\s-]*(?P<unit>h(?:ou)?rs?|h|min(?:ute)?s?)\b",
    re.IGNORECASE,
)
_ISO = re.compile(
    r"(?:(\d{4}-\d{2}-\d{2})(?:[T ](?=\d)|$))?(?:(\d{1,2}):(\d{2})(?::00(?:\.0+)?)?)?"
)
_MONEY = r"euros?|eur|usd|dollars?|bucks|pounds?|gbp|chf|francs?|yen|jpy|cents?|rupees?|inr"
_NUMBER = re.compile(
    r"(?<![\w@/:.,-])(?P<sign>[-\u2212]\s?)?(?P<before>[$€£¥]\s?)?(?P<sign2>[-\u2212])?"
    r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.(?:\d{1,2}|\d{4,})|,\d{1,2})?)"
    rf"(?![\w@/:-]|[.,]\d)(?P<after>\s?(?:[$€£¥]|(?:{_MONEY})\b)|\s?%)?",
    re.IGNORECASE,
)
# "50 of the 900 euros": either may be meant.
_SHARE = re.compile(r"\s+(?:out )?of\b", re.IGNORECASE)
_LABELS = (
    *("id", "ids", "no", "nr", "number", "numbers", "#", "account", "invoice", "order", "room"),
    *("file", "ticket", "page", "version", "case", "reference", "code", "zip", "chapter"),
)
# What may come between such a word and the number.
_BETWEEN = frozenset(("", "with", "is", "are", "of", "and", "or", "&", *_LABELS[:7]))
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\]|[0-9a-f:]+")
_URL = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")


class Number(NamedTuple):
    """A number in the text.

    Attributes:
        value: The number.
        span: Its place.
        is_money: Whether a currency is next to it.
    """

    value: Decimal
    span: Span
    is_money: bool


class Moment(NamedTuple):
    """A day, a time, or both.

    Attributes:
        day: The day, or None.
        minute: Minutes since midnight, or None.
    """

    day: date | None
    minute: int | None


def has_lookalike(text: str) -> bool:
    """Whether a character of *text* may be mistaken for another, or is invisible."""
    if text.isascii() and text.isprintable():
        return False
    return any(
        # Such as the Kelvin sign, a fullwidth letter or a no-break space.
        not char.isprintable()
        or (not char.isascii() and unicodedata.normalize("NFKC", char).lower().isascii())
        for char in text
    )


def fold(text: str) -> str:
    """Return *text* normalised for comparison: case and spacing do not matter."""
    return " ".join(unicodedata.normalize("NFC", text).lower().replace("\u2019", "'").split())


def compact(text: str) -> str:
    """Return an account number without its grouping."""
    return "".join(char for char in text if char not in " -\u00a0.\t").upper()


def parse_number(value: object) -> Decimal | None:
    """Return the number in an argument, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        found = Decimal(str(value))
        return found if found.is_finite() else None
    if not isinstance(value, str):
        return None
    match = _NUMBER.fullmatch(value.strip())
    return None if match is None or "%" in (match["after"] or "") else _value_of(match)


def parse_moment(value: str, *, today: date | None) -> Moment | None:
    """Return the day and time in an argument; None if it contains anything else."""
    text = value.strip()
    if (iso := _ISO.fullmatch(text)) is not None and text:
        day, hour, minute = iso.groups()
        try:
            found = None if day is None else date.fromisoformat(day)
        except ValueError:
            return None
        if hour is not None and (int(hour) > 23 or int(minute) > 59):
            return None
        return Moment(found, None if hour is None else int(hour) * 60 + int(minute))
    written = Saying(text, "", today=today)
    days, minutes = written.days, written.minutes
    rest = text
    for (start, end), _ in sorted((*days, *minutes), reverse=True):
        rest = f"{rest[:start]} {rest[end:]}"
    if (
        len(days) > 1
        or len(minutes) > 1
        or not (days or minutes)
        or rest.strip(" ,").lower() not in ("", "at")
    ):
        return None
    possible = [day for _, meant in days for day in meant]
    if len(possible) != len(days):
        return None
    return Moment(possible[0] if possible else None, minutes[0][1] if minutes else None)


class Address(NamedTuple):
    """The parts of a URL.

    Attributes:
        scheme: In lower case, "" if none was written.
        host: In lower case, with the port unless it is the default.
        path: Without a trailing slash.
        query: The part from ``?`` on, or from ``#`` on.
    """

    scheme: str
    host: str
    path: str
    query: str


def parse_url(text: str) -> Address | None:
    """Return the parts of a URL; None if it is not one, has a user, or has lookalike letters."""
    if not _URL.fullmatch(text):
        return None
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        port = parts.port
    except ValueError:
        return None
    host = (parts.hostname or "").rstrip(".")
    is_usual = port is None or port == {"http": 80, "https": 443}.get(parts.scheme)
    if not _HOST.fullmatch(host) or "@" in parts.netloc or "%" in parts.netloc or "\\" in text:
        return None
    # "349.00" is a number.
    if not parts.scheme and ("." not in host or host.rpartition(".")[2].isdigit()):
        return None
    if any(step in (".", "..") for step in parts.path.lower().replace("%2e", ".").split("/")):
        return None
    query = f"?{parts.query}" if parts.query else ""
    query += f"#{parts.fragment}" if parts.fragment else ""
    return Address(
        parts.scheme, host if is_usual else f"{host}:{port}", parts.path.rstrip("/"), query
    )


def _value_of(match: re.Match[str]) -> Decimal:
    digits = match["digits"]
    # A comma before three digits groups them; before fewer, it is a decimal comma.
    grouped = re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", digits) is not None
    found = Decimal(digits.replace(",", "" if grouped else "."))
    return -found if match["sign"] or match["sign2"] else found


@dataclass(eq=False)
class Saying:
    """One text of the user.

    Attributes:
        text: The text as it was written.
        source: Where it comes from, such as "request".
        today: The day on which it was written, for "tomorrow"; None if unknown.
        readings: A cache for readers: the reading of its clauses for an act, by the words that ask
            for the act.
    """

    text: str
    source: str
    today: date | None = None
    readings: dict[tuple[str, ...], object] = field(
        default_factory=dict[tuple[str, ...], object], repr=False
    )

    @cached_property
    def words(self) -> tuple[tuple[str, Span], ...]:
        """Its words with the marks around them, and their places."""
        return tuple((match[0], match.span()) for match in _WORD.finditer(self.text))

    @cached_property
    def _starts(self) -> list[int]:
        return [start for _, (start, _) in self.words]

    @cached_property
    def _forms(self) -> tuple[frozenset[str], ...]:
        return tuple(_forms_of(word) for word, _ in self.words)

    @cached_property
    def _folded_forms(self) -> tuple[frozenset[str], ...]:
        return tuple(frozenset(map(fold, forms)) for forms in self._forms)

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """The indexes of the words that have each form."""
        return _places_of(self._forms)

    @cached_property
    def _folded_places(self) -> dict[str, list[int]]:
        return _places_of(self._folded_forms)

    def find(self, value: str, *, is_exact: bool = False) -> list[Span]:
        """Return the places of *value* as whole words, not as a part of longer ones.

        Args:
            value: The value to find.
            is_exact: Whether case matters.
        """
        is_exact = is_exact or has_lookalike(value)
        wanted = value.split() if is_exact else fold(value).split()
        forms = self._forms if is_exact else self._folded_forms
        begins = self._places if is_exact else self._folded_places
        count, places = len(wanted), list[Span]()
        for at in begins.get(wanted[0], ()) if wanted else ():
            if at + count <= len(forms) and all(
                wanted[step] in forms[at + step] for step in range(1, count)
            ):
                places.append((self.words[at][1][0], self.words[at + count - 1][1][1]))
        return places

    def find_part(self, value: str) -> list[Span]:
        """Return where *value* is named by its start or end: "the card ending in 4242"."""
        wanted = fold(value)
        return [
            match.span()
            for match in _PART_OF_NAME.finditer(self.text)
            for part in [fold(match["part"].strip(_BEFORE + _AFTER))]
            if part and (wanted.startswith(part) if match["start"] else wanted.endswith(part))
        ]

    def find_account(self, value: str) -> list[Span]:
        """Return the places of the whole account number *value*, in any grouping."""
        wanted, places = compact(value), list[Span]()
        groups = [compact(word.strip(_BEFORE + _AFTER)) for word, _ in self.words]
        for at in range(len(groups) if len(wanted) > 3 else 0):
            joined, end = "", at
            while end < len(groups) and len(joined) < len(wanted):
                joined += groups[end]
                end += 1
            # A group before or after it may belong to it.
            is_cut = _is_group(groups, at - 1) or _is_group(groups, end)
            if joined == wanted and joined.isalnum() and not is_cut:
                places.append((self.words[at][1][0], self.words[end - 1][1][1]))
        return places

    def is_denied(self, span: Span) -> bool:
        """Whether the user does *not* want the thing named there."""
        start = span[0]
        ends = self._clauses[: bisect_right(self._clauses, start)]
        denials = self._denials[: bisect_left(self._denials, start)]
        return bool(denials) and (not ends or denials[-1] >= ends[-1])

    def is_wanted(self, verb: Span) -> bool:
        """Whether the user wants what the verb there says."""
        before, after = self.text[: verb[0]], self.text[verb[1] :]
        # "I do not need it, cancel it" is not "do not share, cancel or pay".
        is_next = _NEXT.search(before[-_MAX_NEXT:]) is not None and not _LISTED.match(after)
        return is_next or not self.is_denied(verb)

    @cached_property
    def _clauses(self) -> list[int]:
        return [match.end() for match in _CLAUSE.finditer(self.text)]

    @cached_property
    def _denials(self) -> list[int]:
        return [match.start() for match in _NEGATION.finditer(self.text)]

    def is_sender(self, span: Span) -> bool:
        """Whether the thing named there is a sender."""
        return _SOURCE.search(self.text[: span[0]]) is not None

    def find_verb(self, verb: str) -> list[Span]:
        """Return the places of *verb*, in any of its regular forms."""
        stem = fold(verb)
        if " " in stem or not stem:
            return self.find(stem)
        stem, last = re.escape(stem.removesuffix("e")), re.escape(stem[-1])
        form = rf"\b{stem}(?:e|es|ed|d|s|ing|{last}ing|{last}ed)?\b"
        return [match.span() for match in re.finditer(form, self.text, re.IGNORECASE)]

    def is_name(self, span: Span, parts: Iterable[str]) -> bool:
        """Whether it is written like a name, and no other word next to it is part of that name.

        Args:
            span: The place.
            parts: The words of the whole name.
        """
        places = [at for at, (_, its) in enumerate(self.words) if its == span]
        known = set(map(fold, parts))
        word = self.text[span[0] : span[1]].lstrip(_BEFORE)
        if not places or self._is_first(places[0]) or not word[:1].isupper():
            return False
        for at in (places[0] - 1, places[0] + 1):
            if 0 <= at < len(self.words):
                beside = self.words[at][0]
                is_apart = self.words[min(at, places[0])][0][-1] in ",.;:!?"
                forms = self._folded_forms[at]
                if beside[:1].isupper() and not is_apart and not forms & known:
                    return at < places[0] and self._is_first(at)
        return True

    def _is_first(self, at: int) -> bool:
        before = self.text[: self.words[at][1][0]].rstrip()
        return not before or before[-1] in ".!?:"

    def is_quoted(self, span: Span) -> bool:
        """Whether it is between quotation marks."""
        inside = self.text[span[0] : span[1]].rstrip(".,;:!?")
        return len(inside) > 2 and inside[0] in _QUOTES and inside[-1] in _QUOTES

    def is_labelled(self, span: Span, labels: Container[str] = _LABELS) -> bool:
        """Whether it follows a word for what it is: "file 13", "id: 13", "files 12 and 13"."""
        at = bisect_right(self._starts, span[0]) - 1
        if "#" in labels and self.words[at][0].lstrip(_BEFORE).startswith("#"):
            return True
        for word, _ in reversed(self.words[max(0, at - _MAX_LISTED) : at]):
            core = fold(word.strip(_BEFORE + _AFTER + "=#"))
            if core in labels or core.removesuffix("s") in labels:
                return True
            if core not in _BETWEEN and not any(map(str.isdigit, core)):
                return False
        return False

    def part(self, place: int) -> int:
        """Return the number of the part of a sentence that contains *place*."""
        return bisect_right(self._parts, place)

    @cached_property
    def _parts(self) -> list[int]:
        return [match.start() for match in _PART.finditer(self.text)]

    @cached_property
    def days(self) -> list[tuple[Span, tuple[date, ...]]]:
        """The days in it: the place of each, and which days it may mean."""
        found: list[tuple[Span, tuple[date, ...]]] = []
        taken = bytearray(len(self.text))
        for form in _DATES:
            for match in form.finditer(self.text):
                if not was_read(taken, match.span()):
                    mark_read(taken, match.span())
                    found.append((match.span(), tuple(self._dates_of(match))))
        if self.today is not None:
            for match in _RELATIVE.finditer(self.text):
                found.append((match.span(), tuple(_relative(match, self.today))))
        return [(span, days) for span, days in found if days]

    def _dates_of(self, match: re.Match[str]) -> Iterator[date]:
        groups = match.groupdict()
        if "one" in groups:
            one, other = int(groups["one"]), int(groups["other"])
            # The order differs between countries.
            pairs = {(one, other), (other, one)}
            pairs = {pair for pair in pairs if pair[0] <= 12}
            if len(pairs) != 1:
                return
            ((month, day),) = pairs
        else:
            number = groups.get("number")
            month = int(number) if number else _MONTHS.index(groups["month"][:3].lower()) + 1
            day = int(groups["day"])
        year = groups.get("year") or self._year_after(match.end())
        if year is None and self.today is None:
            return
        years = [int(year)] if year else [_year(self.today), _year(self.today) + 1]
        for at, one_year in enumerate(years):
            try:
                found = date(one_year, month, day)
            except ValueError:
                continue
            yield found
            if at == 0 and self.today is not None and found >= self.today:
                return

    def _year_after(self, end: int) -> str | None:
        """Return the year at the end of a date range, as in "May 3 to May 5, 2025"."""
        onward = _ONWARD.match(self.text, end)
        for form in _DATES if onward is not None else ():
            until = form.match(self.text, onward.end()) if onward is not None else None
            if until is not None:
                return until.groupdict().get("year")
        return None

    @cached_property
    def minutes(self) -> list[tuple[Span, int]]:
        """The times in it: the place of each, and minutes since midnight."""
        return [(match.span(), _minutes_of(match)) for match in _TIME.finditer(self.text)]

    @cached_property
    def durations(self) -> list[tuple[Span, int]]:
        """The durations in it: the place of each, and minutes."""
        found: list[tuple[Span, int]] = []
        for match in _DURATION.finditer(self.text):
            word, per = match["count"].lower(), 60 if match["unit"][0] in "hH" else 1
            if word == "half an":
                found.append((match.span(), per // 2))
            else:
                found.append((match.span(), (_COUNTS.get(word) or int(word)) * per))
        return found

    @cached_property
    def numbers(self) -> list[Number]:
        """The numbers that are not part of a date, time, duration, address or account."""
        spans = [span for span, _ in (*self.days, *self.minutes, *self.durations, *self.urls)]
        groups = [compact(word.strip(_BEFORE + _AFTER)) for word, _ in self.words]
        for at, (word, span) in enumerate(self.words):
            is_grouped = _is_group(groups, at - 1) or _is_group(groups, at + 1)
            if "@" in word or "/" in word or (_is_group(groups, at) and is_grouped):
                spans.append(span)
        taken = bytearray(len(self.text))
        for span in spans:
            mark_read(taken, span)
        return [
            Number(_value_of(match), match.span(), _is_money(match))
            for match in _NUMBER.finditer(self.text)
            if "%" not in (match["after"] or "") and not was_read(taken, match.span())
        ]

    @cached_property
    def amounts(self) -> list[Number]:
        """The numbers that may be amounts: only those with a currency, if any nearby has one."""
        found = [one for one in self.numbers if not self.is_labelled(one.span)]
        money = {self.part(one.span[0]) for one in found if one.is_money}
        return [one for one in found if one.is_money or self.part(one.span[0]) not in money]

    @cached_property
    def urls(self) -> list[tuple[Span, Address]]:
        """The URLs in it."""
        found = ((span, word.strip(_BEFORE + _AFTER)) for word, span in self.words)
        parsed = ((span, parse_url(word)) for span, word in found if "." in word or "://" in word)
        return [(span, url) for span, url in parsed if url is not None and "@" not in url.host]


def _forms_of(word: str) -> frozenset[str]:
    """Return *word* with more and less of the punctuation around it."""
    before, after = len(word) - len(word.lstrip(_BEFORE)), len(word) - len(word.rstrip(_AFTER))
    if before + after > _MAX_MARKS:
        # A drawn line, or the like.
        return frozenset((word,))
    ends = range(len(word) - after, len(word) + 1)
    forms = {word[start:end] for start in range(before + 1) for end in ends}
    forms |= {form.removesuffix("'s").removesuffix("\u2019s") for form in forms}
    return frozenset(forms | {form.lstrip("#@") for form in forms} - {""})


def _places_of(forms: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for at, those in enumerate(forms):
        for form in those:
            found.setdefault(form, []).append(at)
    return found


def _is_group(groups: list[str], at: int) -> bool:
    return 0 <= at < len(groups) and groups[at].isalnum() and any(map(str.isdigit, groups[at]))


def mark_read(taken: bytearray, span: Span) -> None:
    """Mark the characters of *span* as read; *taken* has one byte for each character."""
    taken[span[0] : span[1]] = b"\1" * (span[1] - span[0])


def was_read(taken: bytearray, span: Span) -> bool:
    """Whether a character of *span* was read as something else."""
    return taken.find(1, *span) >= 0


def _year(today: date | None) -> int:
    return 0 if today is None else today.year


def _relative(match: re.Match[str], today: date) -> Iterator[date]:
    if match["after"]:
        yield today + timedelta(days=2)
    elif match["word"]:
        yield today + timedelta(days=_OFFSETS[match["word"].lower()])
    elif match["weekday"]:
        ahead = (_WEEKDAYS.index(match["weekday"].lower()) - today.weekday()) % 7 or 7
        yield today + timedelta(days=ahead)
        if match["next"]:
            # "Next Monday" may mean the coming one, or the one in the week after.
            yield today + timedelta(days=ahead + 7)
    else:
        word = match["count"].lower()
        count = _COUNTS.get(word) or (int(word) if word.isdecimal() and len(word) < 4 else None)
        if count is not None:
            yield today + timedelta(days=count * (7 if match["unit"].lower() == "week" else 1))


def _minutes_of(match: re.Match[str]) -> int:
    if match["name"]:
        return 720 if match["name"].lower() == "noon" else 0
    hour, minute = int(match["hour"] or match["only"]), int(match["minute"] or 0)
    half = (match["half"] or match["its"] or "").lower()
    if half and hour <= 12:
        hour = hour % 12 + (12 if half == "p" else 0)
    return hour * 60 + minute


def _is_money(match: re.Match[str]) -> bool:
    is_share = _SHARE.match(match.string, match.end()) is not None
    return is_share or bool(match["before"] or (match["after"] or "").strip("% "))
