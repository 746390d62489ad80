"""Masks secrets in texts and values, however they are spelled."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

import msgspec

from upshot.contract.base.json_values import clean_text
from upshot.contract.base.structs import Json
from upshot.errors import Misuse

V = TypeVar("V")

MASK = "***"
# Ids and digests are ours or the provider's, and may contain a short secret by chance.
_PLAIN = frozenset(
    {
        "artifact_id",
        "call_id",
        "digest",
        "id",
        "idempotency_key",
        "kind",
        "parent_run_id",
        "run_id",
        "sha256",
        "tool_version",
    }
)
# A model may give a tool any name, so these are masked if the secret is too long for chance.
_NAMES = frozenset({"name", "tool_name"})


# The mark of a secret in a log: the log's prefix, the number of the secret, and of its spelling.
_MARK = "<secret {}.{}.{}>"
MARKS_OPTION = "secrets"
"""The option of run_started with the prefix of the marks in its log."""


def _mask(number: int, form: int) -> str:
    del number, form
    return MASK


def marks_of(name: str) -> Callable[[int, int], str]:
    """Return a function from the numbers of a secret and a spelling to the mark in log *name*."""
    return lambda number, form: _MARK.format(name, number, form)


def hide_marks(text: str, options: Mapping[str, Json]) -> str:
    """Return *text* from a log with the options *options*, each mark replaced by ``***``."""
    name = options.get(MARKS_OPTION)
    if not isinstance(name, str):
        return text
    return re.sub(_MARK.format(re.escape(name), r"\d+", r"\d+"), MASK, text)


def hide_all_marks(text: str) -> str:
    """Return *text* from any logs, each mark replaced by ``***``."""
    return re.sub(_MARK.format("[0-9a-f]+", r"\d+", r"\d+"), MASK, text)


FORMS = 12
"""The number of usual spellings of a text; any other spelling counts as one of them."""

# Plain, and escaped as JSON text one to three times; then as in a URL and in a form; and as base64
# in two alphabets, where it may start at any of three bit offsets.
_PERCENT = 4
_MIN_CREDENTIAL_CHARS = 6
# A shorter one would appear by chance in any base64.
_MIN_BASE64_BYTES = 8
_MIN_IN_NAME_CHARS = 8
_URL_SAFE = str.maketrans("+/", "-_")
_SHORT = {"\n": "n", "\t": "t", "\r": "r", "\b": "b", "\f": "f"}
_LONGEST_ESCAPE = 26
_CUT_ESCAPE = re.compile(
    r"(?:\\+(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})){0,8}"
    r"(?:\\+(?:[uU][0-9a-fA-F]{0,7}|x[0-9a-fA-F]?)?)?\Z"
    r"|(?:%[0-9a-fA-F]{2}){0,8}(?:%[0-9a-fA-F]?)?\Z"
)


class Secrets:
    """Masks registered strings in texts and values.

    Args:
        texts: The secrets.
        mark: Returns the replacement of a secret from its number and the number of its
            spelling, below ``FORMS``; None always uses ``MASK``.
        names: Whether names in structs are masked if the secret has 8 characters or more. False
            if tools are looked up by these names.

    Attributes:
        masked: How many places were masked so far.

    Raises:
        Misuse: *texts* is not a list of strings.
    """

    def __init__(
        self,
        texts: Iterable[str],
        *,
        mark: Callable[[int, int], str] | None = None,
        names: bool = False,
    ) -> None:
        self._marks: dict[str, str] = {}
        self._lifts: dict[str, str] = {}
        self._texts: list[tuple[str, int]] = []
        self._mark = mark or _mask
        self._masks_names = names
        is_list = isinstance(texts, Iterable) and not isinstance(texts, str)  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        for number, text in enumerate(texts if is_list else (None,), 1):
            if not isinstance(text, str):
                raise Misuse("secrets are a list of strings: secrets=[...]")
            if text:
                self._texts.append((text, number))
            for form, spelled in _forms(text):
                stands = self._mark(number, form)
                self._marks.setdefault(spelled, stands)
                self._lifts.setdefault(stands, spelled)
        self._texts.sort(key=lambda one: -len(one[0]))
        longest_first = sorted(filter(None, self._marks), key=len, reverse=True)
        self._pattern = (
            re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        )
        self.masked: int = 0

    def __bool__(self) -> bool:
        return self._pattern is not None

    def lifted(self) -> Secrets:
        """Return an object that replaces the marks by the registered strings."""
        lifting = Secrets((), names=self._masks_names)
        lifting._marks = self._lifts
        if self._pattern is not None:
            lifting._pattern = re.compile("|".join(map(re.escape, lifting._marks)))
        return lifting

    def open_end(self, text: str) -> int:
        """Return how many characters at the end of *text* may be the start of a secret."""
        if self._pattern is None:
            return 0
        # A whole secret is not split because another may start inside it.
        whole_to = max((found.end() for found in self._pattern_for(text).finditer(text)), default=0)
        longest = _LONGEST_ESCAPE * max(map(len, self._marks))
        for start in range(max(whole_to, len(text) - longest), len(text)):
            end = text[start:]
            if any(form.startswith(end) for form in self._marks) or (
                any(_may_begin(one, text, start) for one, _ in self._texts)
            ):
                return len(end)
        return 0

    def mask_text(self, text: str) -> str:
        """Return *text* with every secret replaced by its mark."""
        if self._pattern is None:
            return text
        text, count = self._pattern_for(text).subn(self._replace, text)
        self.masked += count
        return text

    def _pattern_for(self, text: str) -> re.Pattern[str]:
        """Return the pattern for secrets in *text*; without escapes the small one is enough."""
        has_escapes = self._texts and ("\\" in text or "%" in text)
        return self._with_escapes if has_escapes else cast("re.Pattern[str]", self._pattern)

    @cached_property
    def _with_escapes(self) -> re.Pattern[str]:
        spelled = ["(" + "".join(_units(text)) + ")" for text, _ in self._texts]
        heads = "".join({re.escape(form[0]) for form in self._marks if form})
        known = cast("re.Pattern[str]", self._pattern).pattern
        # The lookahead makes the search skip most positions quickly.
        return re.compile(rf"(?=[{heads}\\%])(?:{'|'.join(spelled)}|{known})")

    def _replace(self, found: re.Match[str]) -> str:
        mark = self._marks.get(found[0])
        if mark is not None:
            return mark
        text, number = self._texts[(found.lastindex or 1) - 1]
        return self._mark(number, _form_of(found[0], text))

    def mask(self, value: V) -> V:
        """Return *value*, JSON or a struct of the contract, with every secret in it replaced.

        Numbers inside free JSON are treated as text, so that a numeric secret is masked too. Ids
        and digests of structs are left unchanged.
        """
        if self._pattern is None:
            return value
        return cast("V", self._mask(value))

    def _mask(self, value: object) -> object:
        if type(value) is str:
            return self.mask_text(value)
        if isinstance(value, dict):
            fields = cast("dict[str, Json]", value)
            return {self.mask_text(name): self._mask(item) for name, item in fields.items()}
        if isinstance(value, list | tuple):
            items = [self._mask(item) for item in cast("list[object]", value)]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, msgspec.Struct):
            return self._mask_struct(value)
        if isinstance(value, str):
            return self._mask_word(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            masked = self.mask_text(text := repr(value))
            return value if masked == text else masked
        return value

    def _mask_name(self, name: object) -> object:
        if not isinstance(name, str) or not self._masks_names:
            return name
        found = self._pattern_for(name).search(name)
        is_chance = found is None or len(found[0]) < _MIN_IN_NAME_CHARS
        return name if is_chance else self.mask_text(name)

    def _mask_word(self, word: str) -> str:
        masked = self.mask_text(str(word))
        try:
            # An open enum accepts any word.
            return word if masked == word else type(word)(masked)
        except ValueError:
            # A word of a closed enum is upshot's own and cannot be a secret.
            return word

    def _mask_struct(self, value: msgspec.Struct) -> msgspec.Struct:
        changes: dict[str, Any] = {}
        for name in value.__struct_fields__:
            field = getattr(value, name)
            if name in _PLAIN or not isinstance(field, str | dict | list | tuple | msgspec.Struct):
                continue
            mask = self._mask_name if name in _NAMES else self._mask
            masked = mask(cast("object", field))
            if masked != field:
                changes[name] = masked
        return msgspec.structs.replace(value, **changes) if changes else value


def credentials_in(
    *, url: str = "", headers: Mapping[str, str], words: Iterable[str] = ()
) -> Secrets:
    """Return the credentials that were sent to a peer, which no error may repeat.

    Args:
        url: A URL; its user, its password and the values of its query are masked.
        headers: Their values are masked, with and without a first word such as Bearer.
        words: Further credentials.

    Returns:
        The secrets of six characters and more; a shorter one might be any word.
    """
    parts = urlsplit(url)
    found = {*words, *(unquote(one) for one in (parts.username, parts.password) if one)}
    found |= {value for _, value in parse_qsl(parts.query)}
    for value in headers.values():
        found |= {value, value.partition(" ")[2]}
    return Secrets(one for one in found if len(one) >= _MIN_CREDENTIAL_CHARS)


def _forms(text: str) -> Iterator[tuple[int, str]]:
    """Yield the usual spellings of *text*, with their numbers: 0 to ``FORMS`` - 1."""
    yield 0, text
    form = clean_text(text)
    for depth in range(_PERCENT):
        yield depth, form
        form = msgspec.json.encode(form).decode()[1:-1]
    data = text.encode("utf-8", "replace")
    yield _PERCENT, quote(data, safe="")
    yield _PERCENT + 1, quote_plus(data)
    if len(data) >= _MIN_BASE64_BYTES:
        for shift in range(3):
            # Without the digits that share bits with the text before and after it.
            coded = b64encode(bytes(shift) + data).decode()
            coded = coded[(0, 2, 3)[shift] : (shift + len(data)) * 8 // 6]
            yield _PERCENT + 2 + shift, coded
            yield _PERCENT + 5 + shift, coded.translate(_URL_SAFE)


def _form_of(spelled: str, text: str) -> int:
    """Return the number of the usual spelling that *spelled* counts as."""
    if "%" in spelled and "%" not in text:
        return _PERCENT
    for depth in range(1, _PERCENT):
        try:
            spelled = json.loads(f'"{spelled}"', strict=False)
        except ValueError:
            break
        if spelled == text:
            return depth
    return 1


@lru_cache(maxsize=1024)
def _units(text: str) -> tuple[str, ...]:
    """Return a pattern for each character of *text* and its backslashes, in any spelling."""
    return tuple(map(_unit, re.findall(r"\\*[^\\]|\\+", text)))


def _unit(characters: str) -> str:
    char = characters.lstrip("\\")
    count = len(characters) - len(char)
    run = r"(?:\\(?:u005c|u005C|x5c|x5C)?|%5[cC])" + f"{{{count},{8 * count}}}" if count else ""
    if not char:
        return run
    code, utf16 = ord(char), char.encode("utf-16-be", "surrogatepass").hex()
    ways = [
        "".join(rf"\\{{1,8}}u{_any_case(utf16[at : at + 4])}" for at in range(0, len(utf16), 4)),
        rf"\\{{1,8}}U{_any_case(f'{code:08x}')}",
        "".join(f"%{_any_case(f'{byte:02x}')}" for byte in char.encode("utf-8", "replace")),
    ]
    if code < 256:
        ways.append(rf"\\{{1,8}}x{_any_case(f'{code:02x}')}")
    if char in _SHORT:
        ways.append(rf"\\{{1,8}}{_SHORT[char]}")
    if char in "\"'/":
        ways.append(rf"\\{{1,7}}{char}")
    if char == " ":
        ways.append(r"\+")
    # Last, since "%" is the start of "%25".
    ways.append(re.escape(char))
    return f"{run}(?:{'|'.join(ways)})"


def _any_case(digits: str) -> str:
    return "".join(f"[{one}{one.upper()}]" if one.isalpha() else one for one in digits)


def _may_begin(secret: str, text: str, start: int) -> bool:
    """Return whether *text* from *start* on may be the start of *secret*, in any spelling."""
    for unit in _units(secret):
        if start == len(text):
            return True
        found = re.compile(unit).match(text, start)
        if found is None:
            return _CUT_ESCAPE.match(text, start) is not None
        start = found.end()
    return False
