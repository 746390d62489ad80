"""The API reference: one Markdown page a topic, made from the docstrings of the public names.

The source is read, not imported, so signatures stand as they are written.
"""

from __future__ import annotations

import builtins
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import griffe

from docs.site.navigation import REFERENCE, Topic

__all__ = [
    "ROOT",
    "anchor_of",
    "commands_page",
    "home_of",
    "index_page",
    "public_names",
    "slug_of",
    "topic_page",
]

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 88
NAME = re.compile(r"upshot(?:\.\w+)+")
WORD = re.compile(r"``([^`]+)``|`([^`]+)`")
# What Markdown or HTML would read as markup in a docstring.
MARKUP = re.compile(r"[<>]|\*\*(?=\w)")
# Marks of fields in the source that say nothing to a reader.
MARKS = re.compile(r"^(?:word|written)\((.*)\)$")
Found = griffe.Class | griffe.Function | griffe.Attribute


@cache
def _package() -> griffe.Module:
    loaded = griffe.load(
        "upshot", search_paths=[str(ROOT / "src")], docstring_parser=griffe.Parser.google
    )
    assert isinstance(loaded, griffe.Module)
    return loaded


@cache
def public_names(package: str) -> dict[str, Found]:
    """Return what *package* exports, by name, where it is defined."""
    module = _package()
    for part in package.split(".")[1:]:
        found = module.members[part]
        assert isinstance(found, griffe.Module)
        module = found
    names: dict[str, Found] = {}
    for name, member in module.members.items():
        if not isinstance(member, griffe.Alias) or name.startswith("_"):
            continue
        if not member.target_path.startswith("upshot.") or name == "lazy_imports":
            continue
        target = member.final_target
        if isinstance(target, griffe.Class | griffe.Function | griffe.Attribute):
            names[name] = target
    return dict(sorted(names.items(), key=lambda pair: pair[0].lower()))


@cache
def _pages() -> dict[str, dict[str, Found]]:
    """The names of each page."""
    pages: dict[str, dict[str, Found]] = defaultdict(dict)
    for page, topic in REFERENCE.items():
        if topic.package != "upshot":
            own = public_names(topic.package)
            pages[page] = {
                name: one for name, one in own.items() if name not in public_names("upshot")
            }
    for name, one in public_names("upshot").items():
        full = one.canonical_path.removeprefix("upshot.")
        fits = [
            (len(home), page)
            for page, topic in REFERENCE.items()
            if topic.package == "upshot"
            for home in topic.homes
            if full.startswith(home)
        ]
        if not fits:
            raise ValueError(
                f"no page of the reference has {full}: add it to docs/site/navigation.py"
            )
        pages[max(fits)[1]][name] = one
    return pages


def anchor_of(page: str, name: str) -> str:
    """Return the heading of a name, which is its anchor too."""
    return f"{REFERENCE[page].package}.{name}"


def slug_of(heading: str) -> str:
    """Return the anchor of a heading: GitHub's, or a public name as it is."""
    if NAME.fullmatch(heading):
        return heading
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@cache
def home_of() -> dict[str, tuple[str, str]]:
    """Return page and anchor of every public name; those of ``upshot`` win."""
    homes: dict[str, tuple[str, str]] = {}
    for page, names in _pages().items():
        for name in names:
            if name not in homes or REFERENCE[page].package == "upshot":
                homes[name] = page, anchor_of(page, name)
    return homes


def topic_page(page: str) -> str:
    """Return the Markdown of a page of the reference."""
    topic, names = REFERENCE[page], _pages()[page]
    parts = [f"# {_heading(topic)}", _about(topic)]
    if topic.package != "upshot":
        doc = _docstring_of(topic.package)
        parts += [_linked(doc.partition("\n\n")[0])] if doc else []
        again = sorted(set(public_names(topic.package)) & set(public_names("upshot")))
        if again:
            parts.append("It also exports " + ", ".join(_link(f"{one}") for one in again) + ".")
    for name, one in names.items():
        parts += [f"## {anchor_of(page, name)}", *_described(name, one)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _heading(topic: Topic) -> str:
    """The title, marked where a guide has the same one: the search lists both."""
    return f"{topic.title} (API)" if topic.package == "upshot" else topic.title


def _about(topic: Topic) -> str:
    if topic.package == "upshot":
        return f"{topic.about} Import these names from `upshot`."
    return f"Import these names from `{topic.package}`."


def _docstring_of(package: str) -> str:
    found = _package()[package.removeprefix("upshot.")]
    return found.docstring.value if found.docstring else ""


def index_page() -> str:
    """Return the first page of the reference, with a table of its pages."""
    rows: list[str] = []
    for page, names in _pages().items():
        found = ", ".join(f"[`{name}`]({page}.md#{anchor_of(page, name)})" for name in names)
        rows.append(f"| [{REFERENCE[page].title}]({page}.md) | {found} |")
    pages = "\n".join([*REFERENCE, "commands"])
    return (
        "# API reference\n\nEvery public name with its signature and docstring, by topic. "
        "[Commands](commands.md) has the help of each command.\n\n"
        "| page | names |\n| --- | --- |\n" + "\n".join(rows) + "\n\n"
        f"```{{toctree}}\n:hidden:\n{pages}\n```\n"
    )


def commands_page() -> str:
    """Return a page with the help of each command."""
    from click.testing import CliRunner

    from upshot.cli.commands import upshot as command

    def help_of(*words: str) -> str:
        environment = {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
        ran = CliRunner().invoke(command, [*words, "--help"], prog_name="upshot", env=environment)
        return f"```text\n{ran.output.rstrip()}\n```"

    parts = [
        "# Commands",
        "What `--help` prints for each command. [The command line](../cli.md) explains them.",
        help_of(),
    ]
    for name in command.commands:
        parts += [f"## upshot {name}", help_of(name)]
    return "\n\n".join(parts) + "\n"


def _described(name: str, one: Found) -> Iterator[str]:
    match one:
        case griffe.Class():
            yield from _class(name, one)
        case griffe.Function():
            yield _code(_signatures(name, one))
            yield from _sections(one)
        case griffe.Attribute():
            value = str(one.value) if one.value is not None else ""
            yield _code([f"{name} = {value}" if len(value) < 600 else name])
            yield from _sections(one)


def _class(name: str, one: griffe.Class) -> Iterator[str]:
    init = one.members.get("__init__")
    bases = ", ".join(str(base) for base in one.bases if _is_known(str(base)))
    if isinstance(init, griffe.Function):
        yield _code(_signatures(f"class {name}", init, returns=False))
    else:
        yield _code([f"class {name}({bases})" if bases else f"class {name}"])
    yield from _sections(one)
    if isinstance(init, griffe.Function):
        yield from _sections(init)
    for method, found in one.members.items():
        is_public = not method.startswith("_") or method in ("__aenter__", "__call__")
        if isinstance(found, griffe.Alias) or not is_public or found.docstring is None:
            continue
        if isinstance(found, griffe.Function):
            yield _code(_signatures(f"{name}.{method}", found))
            yield from _sections(found)
        elif isinstance(found, griffe.Attribute) and "property" in found.labels:
            yield _code([f"{name}.{method}: {found.annotation}"])
            yield from _sections(found)


def _is_known(base: str) -> bool:
    """Whether a reader knows a base class: it is public, built in, or says what kind it is."""
    name = base.partition("[")[0]
    return (
        name in home_of() or hasattr(builtins, name) or name in ("Protocol", "StrEnum", "Generic")
    )


def _signatures(name: str, one: griffe.Function, *, returns: bool = True) -> list[str]:
    return [_signature(name, each, returns=returns) for each in one.overloads or [one]]


def _signature(name: str, one: griffe.Function, *, returns: bool) -> str:
    parameters = list(_parameters(one))
    word = "async def " if "async" in one.labels else ""
    end = f" -> {one.returns}" if returns and one.returns is not None else ""
    whole = f"{word}{name}({', '.join(parameters)}){end}"
    if len(whole) <= WIDTH:
        return whole
    return f"{word}{name}(\n" + "".join(f"    {one},\n" for one in parameters) + f"){end}"


def _parameters(one: griffe.Function) -> Iterator[str]:
    stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}
    starred = False
    rest = list(one.parameters)
    if rest and rest[0].name in ("self", "cls"):
        rest = rest[1:]
    for at, parameter in enumerate(rest):
        kind = parameter.kind or griffe.ParameterKind.positional_or_keyword
        if kind is griffe.ParameterKind.keyword_only and not starred:
            yield "*"
        if kind in (griffe.ParameterKind.keyword_only, griffe.ParameterKind.var_positional):
            starred = True
        text = f"{stars.get(kind, '')}{parameter.name}"
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and kind not in stars:
            text += f" = {parameter.default}" if ":" in text else f"={parameter.default}"
        yield text
        ends = kind is griffe.ParameterKind.positional_only
        if ends and (at + 1 == len(rest) or rest[at + 1].kind is not kind):
            yield "/"


def _sections(one: Found) -> Iterator[str]:
    """The docstring of an object, section by section."""
    if one.docstring is None:
        return
    for section in one.docstring.parse("google", warnings=False):
        match section:
            case griffe.DocstringSectionText(value=text):
                yield _prose(text)
            case griffe.DocstringSectionParameters() | griffe.DocstringSectionAttributes():
                kind = "Parameters" if "param" in section.kind.value else "Fields"
                yield f"**{kind}**"
                yield "\n".join(_item(one, item) for item in section.value)
            case griffe.DocstringSectionReturns() | griffe.DocstringSectionYields():
                said = " ".join(item.description for item in section.value)
                yield f"**{section.kind.value.capitalize()}** {_linked(' '.join(said.split()))}"
            case griffe.DocstringSectionRaises():
                yield "**Raises**"
                yield "\n".join(
                    f"- {_link(str(item.annotation))}: {_text(item.description)}"
                    for item in section.value
                )
            case griffe.DocstringSectionAdmonition():
                yield f"**{section.title}** {_text(section.value.description)}"
            case griffe.DocstringSectionExamples():
                yield "\n\n".join(
                    text if "text" in str(kind) else _code([text]) for kind, text in section.value
                )
            case _:
                yield _prose(str(section.value))


def _item(one: Found, item: griffe.DocstringParameter | griffe.DocstringAttribute) -> str:
    """A row of a list of parameters or fields; a field has its type and default."""
    about = ""
    field = one.members.get(item.name) if isinstance(one, griffe.Class) else None
    if isinstance(field, griffe.Attribute):
        about = f" (`{field.annotation}`)" if field.annotation is not None else ""
        default = "" if field.value is None else str(field.value)
        while marked := MARKS.match(default):
            default = marked[1]
        if about and default and len(default) < 40:
            about = f" (`{field.annotation} = {default}`)"
    return f"- `{item.name}`{about}: {_text(item.description)}"


def _text(text: str) -> str:
    return _linked(" ".join(text.split()))


def _prose(text: str) -> str:
    """Paragraphs of a docstring; an indented block after ``::`` is code."""
    parts: list[str] = []
    for block in re.split(r"\n\s*\n", text):
        if parts and parts[-1].endswith("::") and block.startswith("    "):
            parts[-1] = parts[-1][:-1].removeprefix(":")
            parts.append(_code([re.sub(r"^    ", "", block, flags=re.MULTILINE)]))
        else:
            parts.append(_linked(block))
    return "\n\n".join(parts)


def _linked(text: str) -> str:
    """Docstring text as Markdown, with links at the public names in it."""
    parts: list[str] = []
    at = 0
    for found in WORD.finditer(text):
        parts += [_escaped(text[at : found.start()]), _link(found[1] or found[2])]
        at = found.end()
    return "".join([*parts, _escaped(text[at:])])


def _escaped(text: str) -> str:
    return MARKUP.sub(lambda found: "".join(f"\\{one}" for one in found[0]), text)


def _link(word: str) -> str:
    name = re.sub(r"\(.*\)$", "", word).removeprefix("upshot.").split(".")[0]
    home = home_of().get(name)
    return f"[`{word}`]({home[0]}.md#{home[1]})" if home else f"`{word}`"


def _code(signatures: list[str]) -> str:
    return "```python\n" + "\n".join(signatures) + "\n```"
