"""The order of the site: its sections, their pages, and the names of each reference page."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["NAVIGATION", "REFERENCE", "Topic"]


class Topic(NamedTuple):
    """A page of the API reference.

    Attributes:
        title: Its heading.
        homes: Where the names that it has are defined: prefixes of their full names.
        package: The package that exports the names.
        about: The sentence under the heading; by default the first line of the package.
    """

    title: str
    homes: tuple[str, ...]
    package: str = "upshot"
    about: str = ""


# The longest home that fits a name decides its page.
REFERENCE = {
    "running": Topic(
        "Run agents",
        ("entry.", "runs.live_run", "runs.plan", "runs.replay"),
        about="Start, resume, watch and replay runs.",
    ),
    "apps": Topic(
        "Apps", ("fleet.",), about="Submit runs in one process and work on them in another."
    ),
    "agents": Topic(
        "Agents and requests",
        (
            "contract.agent",
            "contract.conversation",
            "contract.model_calls.Request",
            "contract.prompt",
            "contract.settings",
        ),
        about="What you hand to a run: agents, requests, limits, settings.",
    ),
    "results": Topic(
        "Results",
        (
            "contract.base.enums",
            "contract.codec",
            "contract.error",
            "contract.forms",
            "contract.result",
            "contract.tool_calls",
            "contract.usage",
            "native.",
        ),
        about="What a run returns, its parts, and its forms for other programs.",
    ),
    "messages": Topic("Messages", ("contract.message",), about="Messages and their parts."),
    "pending": Topic(
        "Approvals and questions",
        ("contract.pending",),
        about="What a parked run waits for, and how to answer it.",
    ),
    "effects": Topic(
        "Effects and the journal",
        ("contract.effects", "effects.", "journal."),
        about="Effects that happen once, and the log of runs.",
    ),
    "events": Topic(
        "Events",
        ("contract.base.structs", "contract.events", "contract.model_calls"),
        about="Everything that `start` and `reopen` yield, and the values of model calls.",
    ),
    "tools": Topic(
        "Tools",
        ("contract.provenance", "contract.tool_context", "runs.services.memory", "tools."),
        about="Declare tools, and the gates before them.",
    ),
    "models": Topic(
        "Models", ("models.", "wire."), about="Model clients, fallbacks, transports and prices."
    ),
    "engines": Topic("Engines", ("engines.",), about="What decides the steps of a run."),
    "extending": Topic(
        "Extend upshot",
        ("contract.protocols", "contract.run_control", "runs.", "state."),
        about="Protocols to implement, and what an engine or a hook may use.",
    ),
    "errors": Topic(
        "Exceptions", ("errors",), about="What upshot raises if a call of it is wrong."
    ),
    "upshot.adapters": Topic("upshot.adapters", (), "upshot.adapters"),
    "upshot.guard": Topic("upshot.guard", (), "upshot.guard"),
    "upshot.serve": Topic("upshot.serve", (), "upshot.serve"),
    "upshot.fleet": Topic("upshot.fleet", (), "upshot.fleet"),
    "upshot.lab": Topic("upshot.lab", (), "upshot.lab"),
    "upshot.telemetry": Topic("upshot.telemetry", (), "upshot.telemetry"),
    "upshot.testing": Topic("upshot.testing", (), "upshot.testing"),
    "upshot.sim": Topic("upshot.sim", (), "upshot.sim"),
    "upshot.flat": Topic("upshot.flat", (), "upshot.flat"),
    "upshot.contract": Topic("upshot.contract", (), "upshot.contract"),
    "upshot.models": Topic("upshot.models", (), "upshot.models"),
    "upshot.tools": Topic("upshot.tools", (), "upshot.tools"),
    "upshot.wire": Topic("upshot.wire", (), "upshot.wire"),
}

# Pages of docs/ by their stem; "index" is README.md, and the others of the project are in capitals.
NAVIGATION = {
    "Start": ["index", "effects", "tutorial"],
    "Protect effects": ["ledger", "gateway", "guard", "comparison"],
    "Build agents": [
        "tools",
        "mcp",
        "models",
        "providers",
        "conversation",
        "journal",
        "policy",
        "hooks",
        "quotas",
    ],
    "Control the flow": ["engines", "graph", "machine", "handoff"],
    "Serve and operate": [
        "serve",
        "accounts",
        "audit",
        "protocols",
        "app",
        "production",
        "monitoring",
        "runbook",
        "telemetry",
    ],
    "Integrate and test": ["adapters", "schema", "testing", "lab", "simulator"],
    "Reference": ["result", "events", "options", "cli", "names", "glossary", "api/index"],
    "How it works": ["lifecycle", "architecture", "CONTRIBUTING"],
    "Decisions": [
        "decisions",
        "decisions-results",
        "decisions-tools",
        "decisions-runs",
        "decisions-journal",
        "decisions-serve",
        "CHANGELOG",
    ],
}
