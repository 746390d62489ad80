"""What a tool declares about its arguments and results, and a policy's findings about a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, cast, get_args

from msgspec.structs import replace

from upshot.contract.base.checks import nearest
from upshot.contract.base.json_values import settle_json
from upshot.contract.base.structs import CheckedMeta, Json, Value, check_types, freeze
from upshot.errors import Misuse

Format: TypeAlias = Literal["", "email", "url", "account"]
Word: TypeAlias = Literal[
    "target", "recipient", "ref", "amount", "day", "time", "secret", "choice", "content", "free"
]
"""What an argument means to a policy."""

Scalar: TypeAlias = str | int | float | bool

WORDS: tuple[str, ...] = get_args(Word)


class Meaning(Value, frozen=True, kw_only=True):
    """The words that users say for a value, such as "every month" for ``True``.

    Attributes:
        value: The value.
        words: Any of these asks for the value, as whole words and in any case.
    """

    value: Scalar = ""
    words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "words")
        check_types(self)


class Argument(Value, frozen=True, kw_only=True):
    """What one argument of a tool means to ``Policy(taint="values")``.

    Attributes:
        word: "target" chooses what the call acts on; "recipient" who gets something; "ref" names an
            object; "amount", "day" and "time" are compared as such; "secret" letter by letter;
            "choice" is harmless within ``choices``; "content" is text that is sent out; "free"
            controls nothing.
        format: How a target is compared: "email", "url", "account", or "" for any text.
        record_kind: The kind of ``Record`` that a ref names.
        own: The field of the record that names its owner; "" if the owner does not matter.
        choices: The harmless values; None stands for every empty value: null, [] and {}.
        meanings: The words that users say for other values.

    Raises:
        Misuse: A field has the wrong type, or belongs to another word.
    """

    word: Word = "target"
    format: Format = ""
    record_kind: str = ""
    own: str = ""
    choices: tuple[Scalar | None, ...] = ()
    meanings: tuple[Meaning, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "choices", "meanings")
        check_types(self)

    def __str__(self) -> str:
        return " ".join(part for part in (self.word, self.format or self.record_kind) if part)


ArgumentWord: TypeAlias = Argument | Word


def target(*, format: Format = "") -> Argument:
    """Declare an argument that chooses what the call acts on, as every undeclared one does.

    Args:
        format: "email", "url" or "account" to compare it as such, "" for any text.
    """
    return Argument(word="target", format=format)


def ref(kind: str, *, own: str = "") -> Argument:
    """Declare an argument that names an object, by its id or name.

    Args:
        kind: The kind of the ``Record`` for such objects.
        own: The field of the record that must contain one of ``Policy.user``, so that an object
            with the same name but another owner does not match; "" if the owner does not matter.
    """
    return Argument(word="ref", record_kind=kind, own=own)


def choice(
    values: Iterable[Scalar | None] = (),
    *,
    words: Mapping[Scalar, str | Iterable[str]] | None = None,
    of: ArgumentWord = "choice",
) -> Argument:
    """Declare an argument with harmless values; any other value must come from the user.

    Args:
        values: The harmless values, such as the defaults that a model fills in if the user said
            nothing. None stands for every empty value: null, [] and {}.
        words: For values that users ask for in other words, these words:
            ``{"rw": ("edit", "write"), True: "every month"}``.
        of: What the argument means otherwise: ``choice({"Payment"}, of="content")``.

    Raises:
        Misuse: *values* or *words* has another form, or *of* is not such a word.
    """
    if isinstance(values, str):
        raise Misuse(f"choice({values!r}): give a set of values, such as choice({{{values!r}}})")
    harmless = tuple(sorted(values, key=repr))
    meanings = tuple(_meaning(value, phrases) for value, phrases in (words or {}).items())
    if isinstance(of, Argument):
        return replace(of, choices=harmless, meanings=meanings)
    if of not in (*_PLAIN_WORDS, "choice"):
        raise Misuse(
            f"choice(of={of!r:.60}): give {', '.join(_PLAIN_WORDS)}, target(...), ref(...)"
        )
    return Argument(word=of, choices=harmless, meanings=meanings)


def _meaning(value: Scalar, words: str | Iterable[str]) -> Meaning:
    texts = (words,) if isinstance(words, str) else tuple(words)
    if not texts or not all(isinstance(one, str) and one.strip() for one in texts):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(
            f"the words for {value!r:.60} are {words!r:.60}: give texts, such as "
            '{"rw": ("edit", "write")}'
        )
    return Meaning(value=value, words=texts)


class _OfKind(Value, frozen=True, kw_only=False):
    record_kind: str = ""


class Record(_OfKind, frozen=True, kw_only=True):
    """The records in the results of a tool: ``Record("contact", id="email", names=("name",))``.

    Every JSON object in a result that has the field *id* is such a record, however deeply nested.
    Objects inside a text do not count.

    Attributes:
        record_kind: A word of your choice, which ``ref`` repeats.
        id: The field that identifies it; "" if each text of a list is a record, as in a list of
            channel names.
        names: The fields that users call it by.
        trusted: Whether your own system fills *id* and *names* even if the result is untrusted
            because of other text in it, such as a list of events with text from strangers. A
            stranger may still have chosen a name that the user says.

    Raises:
        Misuse: A field has the wrong type.
    """

    id: str = "id"
    names: tuple[str, ...] = ()
    trusted: bool = False

    def __post_init__(self) -> None:
        freeze(self, "names")
        check_types(self)


class ToolDeclaration(Value, frozen=True, kw_only=True):
    """What a tool declares about itself to a policy.

    Attributes:
        arguments: What each argument means; an argument without an entry is a target.
        records: The records in its results.
        trust: "trusted", "untrusted" or "".
        private: Whether its results are private.
        asked_by: Words that users ask for it with; empty for the first word of its name.
    """

    arguments: dict[str, Argument] = {}
    records: tuple[Record, ...] = ()
    trust: str = ""
    private: bool = False
    asked_by: tuple[str, ...] = ()

    @property
    def declares(self) -> bool:
        """Whether it declares more than that the results are untrusted."""
        return self not in _SAY_NOTHING


_SAY_NOTHING = (ToolDeclaration(), ToolDeclaration(trust="untrusted"))


class Doubt(Value, frozen=True, kw_only=True, metaclass=CheckedMeta):
    """Something about a call that a stranger may have chosen.

    Attributes:
        path: The argument, as a JSON pointer; "" is the call itself.
        value: The value as it would be used.
        word: What the argument was declared to be, such as "ref file".
        reason: Why nothing vouches for it.
        found: Where the value was found: "only in the result of get_page, line 3", or "nowhere".
        said: What the user said of that kind, "" for nothing.
    """

    path: str = ""
    value: Json = None
    word: str = ""
    reason: str = ""
    found: str = ""
    said: str = ""

    def __post_init__(self) -> None:
        settle_json(self, "value")


class Voucher(Value, frozen=True, kw_only=True, metaclass=CheckedMeta):
    """What vouches for a value of a call.

    Attributes:
        path: The argument, as a JSON pointer.
        digest: The first 16 hex digits of the SHA-256 of the value.
        rule: "said" by the user; the schema's "default"; the "user" themselves; a trusted "record";
            "made" by a write of the run; a known "host"; a harmless "choice"; "free"; "links" or
            "open" by ``Policy.words``.
        source: Where the value was found: "request", "answer <id>", or "call <id> <JSON pointer>".
    """

    path: str = ""
    digest: str = ""
    rule: str = ""
    source: str = ""


def read_arguments(arguments: object, known: Iterable[str], whose: str) -> dict[str, Argument]:
    """Read a tool's declarations of its arguments.

    Args:
        arguments: A mapping from names to words or ``Argument``.
        known: The names of the tool's arguments.
        whose: The start of an error message.

    Raises:
        Misuse: It is not such a mapping, or names an argument that the tool does not have.
    """
    if not isinstance(arguments, Mapping):
        raise Misuse(f'{whose}arguments is {arguments!r:.60}: give {{"to": "recipient", ...}}')
    names, read = list(known), dict[str, Argument]()
    for name, word in cast("Mapping[object, object]", arguments).items():
        # "attachments.id" is a field inside "attachments".
        if str(name).partition(".")[0] not in names:
            near = nearest(str(name), names)
            hint = (
                f": did you mean {near[0]!r}?" if near else f": it has {', '.join(names) or 'none'}"
            )
            raise Misuse(f"{whose}there is no argument {name!r}: {hint}")
        if isinstance(word, Argument):
            read[str(name)] = word
        elif isinstance(word, str) and word in _PLAIN_WORDS:
            read[str(name)] = Argument(word=cast("Word", word))
        else:
            raise Misuse(
                f"{whose}the argument {name!r} is {word!r:.60}: give {', '.join(_PLAIN_WORDS)}, "
                "target(...), ref(...) or choice(...)"
            )
    return read


_PLAIN_WORDS = tuple(word for word in WORDS if word not in ("ref", "choice"))
