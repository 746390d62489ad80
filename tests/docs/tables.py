"""Tables of the pages that are made from the source: ``python -m tests.docs.tables`` writes them,
and the stubs of ``tests.docs.stubs``.

On a page a table stands between ``<!-- table NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields
from functools import partial
from typing import Any, get_args

import msgspec

import upshot
import upshot.contract.base.enums as word_field
from tests.adapters_real.plays import CASES
from tests.adapters_real.told import FACTS, case_rows, fact_rows
from tests.docs.recordings import RECORDINGS
from tests.docs.stubs import write_stubs
from tests.docs.test_pages import ROOT
from tests.serve.permission_table import rows_of_page
from upshot.contract import DELTAS
from upshot.models import PROVIDERS, Provider
from upshot.models.providers import ALIASES, PLACES
from upshot.runs.plan import Plan, ResumeOptions, RunOptions
from upshot.wire.batch_forms import FORMS
from upshot.wire.batches import BatchForm

__all__ = ["PAGES", "filled", "words_of"]

PAGES = [
    ROOT / "docs" / f"{name}.md"
    for name in ("result", "events", "options", "names", "providers", "serve", "adapters")
]
TABLE = re.compile(r"(<!-- table (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
ATTRIBUTE = re.compile(r"^    (\w+): (.*?)(?=^ {0,4}\S|\Z)", re.MULTILINE | re.DOTALL)

# The package of each name that ``upshot`` exports, as its imports say.
PACKAGE_OF = {
    alias.name: (node.module or "").split(".")[1]
    for node in ast.walk(ast.parse(inspect.getsource(upshot)))
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
    if alias.asname
}
# The extra that reads the credentials of a cloud.
EXTRAS = {"aws": "bedrock", "google": "vertex"}
# What holds where neither the call nor a default of the plan says it.
SPECIAL = {
    "engine": "the agent's, else `LoopEngine()`",
    "model": "the agent's",
    "settings": "the agent's",
    "retry": "the agent's, which is `Retry()`",
    "budget": "the agent's, else `Budget()`",
    "tools": "`()`",
    "prices": "`None`",
    "clock": "the system's",
    "conversation": "the request's `context_id`",
    "if_waiting": "`'refuse'`",
    "remember": "`True`",
}


def attributes_of(kind: type) -> dict[str, str]:
    """The attributes that the docstring of *kind* tells of, by name."""
    text = kind.__doc__ or ""
    told = inspect.cleandoc(text).partition("Attributes:\n")[2]
    told = told.partition("\n\nRaises:")[0]
    return {name: in_a_cell(words) for name, words in ATTRIBUTE.findall(told + "\n")}


def in_a_cell(text: str) -> str:
    return " ".join(text.split()).replace("``", "`").replace("|", r"\|")


def table(heads: str, rows: Iterable[tuple[str, ...]]) -> str:
    names = heads.split(", ")
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def fields_of(kind: type) -> str:
    """The fields of a struct, with types."""
    types = {
        name: type_
        for base in reversed(kind.__mro__)
        for name, type_ in vars(base).get("__annotations__", {}).items()
    }
    told = attributes_of(kind).items()
    return table(
        "field, type, what",
        [(f"`{name}`", f"`{in_a_cell(type_of(str(types[name])))}`", what) for name, what in told],
    )


def type_of(annotation: str) -> str:
    """What is read from a field of that annotation."""
    word: Any = getattr(word_field, annotation, None)
    return annotation if word is None else word.__name__


def limits_of(kind: Any) -> str:
    """The fields of a value, with defaults."""
    defaults = defaults_of(kind)
    told = attributes_of(kind).items()
    return table("field, default, what", [(f"`{n}`", defaults[n], w) for n, w in told])


def defaults_of(kind: Any) -> dict[str, str]:
    """Each field's default as it would be written; a dash where it has none."""
    if not issubclass(kind, msgspec.Struct):
        return {one.name: written(one.default) for one in fields(kind)}
    found: dict[str, str] = {}
    for one in msgspec.structs.fields(kind):
        made = one.default_factory
        found[one.name] = written(one.default if made is msgspec.NODEFAULT else made())
    return found


def written(default: object) -> str:
    return "-" if default in (MISSING, msgspec.NODEFAULT) else f"`{default!r}`"


def options() -> str:
    """The options of a run."""
    defaults = defaults_of(Plan)
    told = {**attributes_of(ResumeOptions), **attributes_of(RunOptions)}
    rows = [(f"`{n}`", SPECIAL.get(n) or defaults[n], what) for n, what in told.items()]
    return table("option, default, what", rows)


def events(*, deltas: bool) -> str:
    """The events that are logged, or those that are for watchers only."""
    kinds = [k for k in get_args(upshot.Event) if issubclass(k, upshot.RunEvent)]
    rows = [event_row(kind) for kind in kinds if (kind in DELTAS) is deltas]
    return table("class, kind, what, fields", rows)


def event_row(kind: Any) -> tuple[str, ...]:
    own = [name for name in kind.__struct_fields__ if name not in upshot.RunEvent.__struct_fields__]
    summary = in_a_cell((kind.__doc__ or "").splitlines()[0]).removesuffix(".")
    names = ", ".join(f"`{name}`" for name in own)
    return f"`{kind.__name__}`", f"`{kind.__struct_config__.tag}`", summary, names


def providers() -> str:
    """The providers of models."""
    aliases = defaultdict[str, list[str]](list)
    for alias, name in ALIASES.items():
        aliases[name].append(alias)
    rows = [
        (
            " or ".join(f"`{name}`" for name in (one.name, *aliases[one.name])),
            " or ".join(f"`{key}`" for key in (one.key_variable, one.other_variable) if key)
            or "none",
            ", ".join((one.surface, *one.other_surfaces)),
            address_of(one),
            f"`{EXTRAS[one.cloud]}`" if one.cloud else "",
            ", ".join(f"{surface} {n}" for surface, n in RECORDINGS.get(one.name, {}).items()),
        )
        for one in PROVIDERS.values()
    ]
    return table("provider, key, surfaces, address, extra, recordings", rows)


def batches() -> str:
    """The providers that have batches."""
    rows: list[tuple[str, ...]] = []
    for name, form in FORMS.items():
        provider = PROVIDERS[name]
        surfaces = (provider.surface, *provider.other_surfaces)
        spoken = ", ".join(one for one in surfaces if one in form.surfaces)
        place = f"`{form.starts}NAME`: {form.needs}" if form.needs else ""
        found = "no" if form.find is BatchForm.find else "yes"
        rows.append((f"`{name}`", spoken, place, found))
    return table("provider, surfaces, place, found after a kill", rows)


def address_of(provider: Provider) -> str:
    """Where a provider is, and which variables say parts of it."""
    said = {
        name: PLACES[name] for name in re.findall(r"\{(\w+)\}", provider.base_url) if name in PLACES
    }
    if not said:
        return f"`{provider.base_url}`"
    variables = (" or ".join(f"`{one}`" for one in place.variables) for place in said.values())
    return f"by {', '.join(variables)}; else `base_url=`"


def names(home: str) -> str:
    """What ``upshot`` exports from one of its packages, and from those inside it."""
    rows = [
        (f"`{n}`", summary_of(getattr(upshot, n))) for n, of in PACKAGE_OF.items() if of == home
    ]
    return table("name, what", sorted(rows))


def summary_of(value: Any) -> str:
    if inspect.isclass(value) or inspect.isfunction(value):
        return in_a_cell((value.__doc__ or "").splitlines()[0])
    if isinstance(value, str | int):
        return f"A constant: `{value!r}`."
    members = [getattr(one, "__name__", str(one)) for one in get_args(value)]
    if value is upshot.Event:
        return "Any of the [events](events.md)."
    kind = getattr(value, "__name__", "") or "One"
    return f"{kind} of {', '.join(f'`{member}`' for member in members)}."


MAKERS: dict[str, Callable[[], str]] = {
    "result": lambda: fields_of(upshot.AgentResult),
    "usage": lambda: fields_of(upshot.Usage),
    "cost": lambda: fields_of(upshot.Cost),
    "rate_limit": lambda: fields_of(upshot.RateLimitState),
    "window": lambda: fields_of(upshot.RateLimitWindow),
    "record": lambda: fields_of(upshot.ToolRecord),
    "approval": lambda: fields_of(upshot.PendingApproval),
    "question": lambda: fields_of(upshot.PendingQuestion),
    "effect": lambda: fields_of(upshot.PendingEffect),
    "external": lambda: fields_of(upshot.PendingExternal),
    "agent": lambda: limits_of(upshot.Agent),
    "request": lambda: limits_of(upshot.Request),
    "error": lambda: fields_of(upshot.AgentError),
    "stamp": lambda: fields_of(upshot.RunEvent),
    "logged": lambda: events(deltas=False),
    "deltas": lambda: events(deltas=True),
    "options": options,
    "providers": providers,
    "batches": batches,
    "routes": lambda: table("Who, Routes", rows_of_page()),
    "told_cases": lambda: table(", ".join(("adapter", *CASES)), case_rows()),
    "told_facts": lambda: table(", ".join(("adapter", *FACTS)), fact_rows()),
    "budget": lambda: limits_of(upshot.Budget),
    "retry": lambda: limits_of(upshot.Retry),
    "settings": lambda: limits_of(upshot.ModelSettings),
    **{f"names_{home}": partial(names, home) for home in set(PACKAGE_OF.values())},
}


def filled(text: str) -> str:
    """A page with its tables as the source has them now."""
    return TABLE.sub(lambda found: found[1] + MAKERS[found[2]]() + found[4], text)


def words_of(text: str, heading: str) -> Iterator[str]:
    """The words in the first cells of the table under a heading."""
    section = text.partition(f"# {heading}\n")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
        yield from re.findall(r"`(\w+)`", row)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text("utf-8")), "utf-8")
    write_stubs()
