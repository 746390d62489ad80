"""An agent that surveys the code of a git repository.

``upshot run examples/survey/agent.py:agent "Survey this repository."`` runs it on the repository
round the current folder, or on DEMO_REPO; ``--model sim:examples/survey/scenario.json`` needs no
key.
"""

from __future__ import annotations

from repository import find_repository
from survey_tools import Survey

from upshot import Agent, Budget

__all__ = ["agent"]

INSTRUCTIONS = """\
You survey the code of a git repository and report on it in Markdown.

Find out with your tools, several at once where you can: how long its history is and by how many
people; what it is written in; which files are the largest and how the largest one begins; how many
functions and classes are defined and where most of them are; how the work was spread over the last
two weeks of the commit calendar (a year of it is stored as an artifact: read the part that you need
with read_artifact); and whether somebody is committing right now. A tool that fails or runs out of
time is a finding too.

Report only what the tools returned, with their figures, in at most 60 lines.
"""

agent = Agent(
    id="survey",
    name="Code survey",
    instructions=INSTRUCTIONS,
    tools=Survey(find_repository()).tools,
    budget=Budget(deadline_s=300, max_turns=20, max_tool_calls=60),
)
