"""A writer and a critic: a draft is done again until the critic is content, or nobody has time.

    .venv/bin/python examples/writer/writer.py [--model openai:gpt-5] [--attempts 4] [FILE]

The critic is a decider: when the writer has a draft, it runs an agent of its own on it, and asks
for another attempt with what is to be changed. Each draft stays in the result's attempt log. The
models are scripted, so that it needs no key; the judgement is made of the draft itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from upshot import (
    Agent,
    AgentResult,
    Decider,
    FinalizeDecision,
    Message,
    Misuse,
    Request,
    RunInfo,
    ScriptedModel,
    run,
)

ROOT = Path(__file__).resolve().parents[2]
MOST_WORDS = 50
LAST_DRAFT, CHANGES = "Your last draft:\n", "\n\nChange this:\n"
FILLERS = ("very", "really", "just", "actually", "of course", "basically")


class Verdict(Struct):
    """What the critic thinks of a draft.

    Attributes:
        score: From 0 to 10.
        changes: What has to be changed; empty where it is good.
    """

    score: int
    changes: list[str]


class Critic(Decider):
    """Has drafts judged, and done again where they are not good enough.

    Args:
        agent: Judges a draft; its output is a Verdict.
    """

    def __init__(self, agent: Agent[Verdict]) -> None:
        self.verdicts: list[Verdict] = []
        self._agent = agent

    async def before_finalize(
        self, info: RunInfo, request: Request, result: AgentResult[Any]
    ) -> FinalizeDecision | None:
        """Accept the draft, or ask for another one."""
        if not result.success:
            return None
        judged = await run(self._agent, result.content or "", parent_run_id=info.run_id)
        verdict = judged.unwrap()
        self.verdicts.append(verdict)
        if not verdict.changes:
            return FinalizeDecision.accept()
        # The next attempt starts afresh, so it is told of this one.
        feedback = LAST_DRAFT + (result.content or "") + CHANGES + "\n".join(verdict.changes)
        return FinalizeDecision.revise(feedback, f"score {verdict.score} of 10")


def write(messages: Sequence[Message]) -> str:
    """What a writer does: a first draft, and then what the critic asks for."""
    source, asked = messages[0].text, messages[-1].text
    if not asked.startswith(LAST_DRAFT):
        return f"This is really a very good thing. {first_words(source)}"
    draft, _, changes = asked.removeprefix(LAST_DRAFT).partition(CHANGES)
    if empty := re.search(r"empty words: (.+?)\.", changes):
        words = "|".join(map(re.escape, empty[1].split(", ")))
        draft = re.sub(rf"\b({words}) ?", "", draft)
    if limit := re.search(r"to at most (\d+) words", changes):
        draft = shortened(draft, int(limit[1]))
    return draft.strip()


def first_words(source: str) -> str:
    """The first paragraphs of a page, without headings, lists, code and marks."""
    paragraphs = re.split(r"\n\s*\n", re.sub(r"(?s)```.*?```", "", source))
    plain = [" ".join(one.split()) for one in paragraphs if not re.match(r"\s*[#|`<>-]", one)]
    return re.sub(r"[*`]", "", " ".join(plain[:2]))


def shortened(text: str, words: int) -> str:
    """As many sentences from the end of the first on as fit into *words*."""
    kept: list[str] = []
    for sentence in re.split(r"(?<=[.!?]) ", text)[1:]:
        if len(" ".join([*kept, sentence]).split()) > words:
            break
        kept.append(sentence)
    return " ".join(kept)


def judge(messages: Sequence[Message]) -> str:
    """What a critic does: look for empty words, then for what is too long."""
    draft = messages[-1].text
    count = len(draft.split())
    empty = [word for word in FILLERS if re.search(rf"\b{word}\b", draft.lower())]
    changes: list[str] = []
    if empty:
        # A critic who says everything at once is not listened to.
        changes.append(f"Leave out the empty words: {', '.join(empty)}.")
    elif count > MOST_WORDS:
        changes.append(f"Cut it from {count} to at most {MOST_WORDS} words; begin with the matter.")
    score = max(0, 10 - 2 * len(empty) - 3 * (count > MOST_WORDS))
    return json.dumps({"score": score, "changes": changes})


async def summarise(
    source: str, *, model: str | None = None, attempts: int = 4
) -> tuple[AgentResult[str], Critic]:
    """Have *source* summarised.

    Returns:
        The result, and the critic who judged it.
    """
    writer = Agent(
        "writer",
        model=model or ScriptedModel(write, name="scripted:writer"),
        instructions=f"Summarise the text in at most {MOST_WORDS} plain words.",
    )
    agent = Agent(
        "critic",
        model=model or ScriptedModel(judge, name="scripted:critic"),
        instructions=f"Judge the summary. Over {MOST_WORDS} words or with empty words it is bad.",
        output_type=Verdict,
    )
    critic = Critic(agent)
    result = await run(writer, source, deciders=[critic], max_attempts=attempts)
    return result, critic


def report(result: AgentResult[str], critic: Critic) -> None:
    """Print every draft and what was said of it."""
    for line, verdict in zip(result.attempt_log, critic.verdicts, strict=False):
        words = len((line.content or "").split())
        print(f"Draft {line.attempt}: {words} words, score {verdict.score} of 10")
        print(textwrap.indent(textwrap.fill(line.content or "", 74), "    "))
        for change in verdict.changes:
            print(textwrap.fill(change, 74, initial_indent="  > ", subsequent_indent="    "))
        print()
    if result.state.get("revise_exhausted"):
        print("There is no time for another one, so this is it.")
    elif result.success:
        print(f"Accepted after {result.attempts} drafts.")
    else:
        print(f"{result.status}: {result.error}")


def main() -> None:
    """Summarise a file, this project's own start page by default."""
    parser = argparse.ArgumentParser(description="A writer and a critic.")
    parser.add_argument(
        "file", nargs="?", type=Path, default=ROOT / "README.md", help="a text; default: README.md"
    )
    parser.add_argument("--model", help="a real one, such as openai:gpt-5; else scripted")
    parser.add_argument("--attempts", type=int, default=4, help="how many drafts at most")
    given = parser.parse_args()
    try:
        text = given.file.read_text("utf-8")
        result, critic = asyncio.run(summarise(text, model=given.model, attempts=given.attempts))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        parser.error(f"{given.file}: {reason}: give a text file to summarise")
    except Misuse as error:
        # Such as a model that is none.
        parser.error(str(error))
    report(result, critic)
    sys.exit(0 if result.success else 1)


if __name__ == "__main__":
    main()
