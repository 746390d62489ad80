"""One agent of each framework, by its real package, with a model on the simulator.

``NATIVE`` has a coroutine for each: it is given a ``Desk`` and returns what the framework returned;
it raises what the framework raised. The packages are imported when the agent is played.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upshot.sim import Reply, Scenario, ScriptedCall, Simulator, StatusFault, Tokens

COUNTS = Tokens(input_tokens=100, output_tokens=50, cache_read_tokens=40, reasoning_tokens=20)
MODEL, KEY, PROMPT = "gpt-5", "no-key", "How many are there?"
# What no framework may do while it is tried.
QUIET = {
    "AGNO_TELEMETRY": "false",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TESTING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OPENAI_API_KEY": KEY,
    "OTEL_SDK_DISABLED": "true",
}


def scenario_of(case: str, *, tool: str = "stock", final: str = "") -> Scenario:
    """What the model does in a case.

    The tool raises for x below 0, once, and is cancelled for x = 0.

    Args:
        case: One of ``CASES``.
        tool: The name under which the model calls the tool.
        final: The tool that the agent wants its answers in; "" for answers as text.
    """

    def says(text: str, finish: str = "") -> Reply:
        if not final or not text:
            return Reply(text=text, usage=COUNTS, finish_reason=finish)
        answer = ScriptedCall(name=final, arguments={"answer": text})
        return Reply(tool_calls=(answer,), usage=COUNTS, finish_reason=finish)

    def asks(*xs: int) -> Reply:
        calls = tuple(ScriptedCall(name=tool, arguments={"x": x}) for x in xs)
        return Reply(tool_calls=calls, usage=COUNTS)

    limit = StatusFault(status=429, retry_after_s=7, times=None)
    replies: dict[str, tuple[Reply, ...]] = {
        "text": (says("There are 3."),),
        "two calls": (asks(1, 2), says("There are 3.")),
        "length": (says("There are", "length"),),
        "a tool raises": (asks(-1), says("I cannot say.")),
        "cancel": (asks(0), says("no")),
        "empty reply": (says(""),),
    }
    faults = {"429": (limit,), "500": (StatusFault(status=500, times=None),)}
    return Scenario(
        replies=replies.get(case, (says("no"),)), faults=faults.get(case, ()), when_spent="last"
    )


def as_final_answer(reply: Reply) -> Reply:
    """The reply of a model that answers with the tool of smolagents."""
    if not reply.text or reply.tool_calls:
        return reply
    answer = ScriptedCall(name="final_answer", arguments={"answer": reply.text})
    return Reply(tool_calls=(answer,), usage=reply.usage, finish_reason=reply.finish_reason)


CASES = ("text", "two calls", "length", "429", "500", "a tool raises", "cancel", "empty reply")


@dataclass
class Desk:
    """What one play has.

    Attributes:
        base_url: The address of the model, with /v1.
        made: What the tool was called with.
        cancel: How the run is cancelled in the middle of the tool; each framework sets its own.
    """

    base_url: str
    made: list[int] = field(default_factory=list)
    cancel: Callable[[], object] = lambda: None

    async def stock(self, x: int) -> str:
        """Say how many of an article there are.

        Args:
            x: The number of the article.
        """
        self.made.append(x)
        # Once: a framework that forgets the call has its model ask for it again.
        if x < 0 and self.made.count(x) == 1:
            raise ValueError("there is no such article")
        if x == 0:
            self.cancel()
            await asyncio.sleep(0)
        return f"{x + 2} pieces"

    def stock_sync(self, x: int) -> str:
        """Say how many of an article there are.

        Args:
            x: The number of the article.
        """
        return _finish(self.stock(x))

    def tool(self) -> Callable[..., Any]:
        """The tool as a coroutine function that is no method."""

        async def stock(x: int) -> str:
            return await self.stock(x)

        stock.__doc__ = self.stock.__doc__
        return stock

    def sync_tool(self) -> Callable[..., Any]:
        """The tool as a plain function."""

        def stock(x: int) -> str:
            return self.stock_sync(x)

        stock.__doc__ = self.stock.__doc__
        return stock


def _finish(work: Any) -> Any:
    """The result of a coroutine that waits for nothing but one turn of the loop."""
    try:
        while True:
            work.send(None)
    except StopIteration as ended:
        return ended.value


def cancel_here(desk: Desk) -> None:
    """Cancel the task that the agent runs in, which is how asyncio code is cancelled."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    desk.cancel = lambda: loop.call_soon_threadsafe(task.cancel)


def client_of(desk: Desk) -> Any:
    from openai import AsyncOpenAI

    return AsyncOpenAI(base_url=desk.base_url, api_key=KEY, max_retries=0)


async def pydantic_ai(desk: Desk) -> object:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    cancel_here(desk)
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client_of(desk)))
    return await Agent(model, tools=[desk.tool()]).run(PROMPT)


async def openai_agents(desk: Desk) -> object:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool

    cancel_here(desk)
    model = OpenAIChatCompletionsModel(model=MODEL, openai_client=client_of(desk))
    agent = Agent(name="desk", model=model, tools=[function_tool(desk.tool())])
    return await Runner.run(agent, PROMPT)


async def strands(desk: Desk) -> object:
    from strands import Agent, tool
    from strands.models.openai import OpenAIModel

    model = OpenAIModel(client=client_of(desk), model_id=MODEL)
    agent = Agent(
        model=model, tools=[tool(desk.tool())], callback_handler=None, retry_strategy=None
    )
    desk.cancel = agent.cancel
    return await agent.invoke_async(PROMPT)


async def agno(desk: Desk) -> object:
    from agno.agent import Agent
    from agno.models.openai import OpenAIChat

    model = OpenAIChat(id=MODEL, base_url=desk.base_url, api_key=KEY, max_retries=0)
    agent = Agent(model=model, tools=[desk.tool()], telemetry=False)
    desk.cancel = lambda: agent.cancel_run("play")
    return await agent.arun(PROMPT, run_id="play")


async def adk(desk: Desk) -> object:
    from google.adk.agents import LlmAgent
    from google.adk.models.lite_llm import LiteLlm
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    cancel_here(desk)
    model = LiteLlm(
        model=f"openai/{MODEL}", api_base=desk.base_url, api_key=KEY, num_retries=0, max_retries=0
    )
    agent = LlmAgent(name="desk", model=model, tools=[desk.tool()])
    runner = InMemoryRunner(agent=agent, app_name="desk")
    session = await runner.session_service.create_session(app_name="desk", user_id="ann")
    asked = types.Content(role="user", parts=[types.Part(text=PROMPT)])
    events = runner.run_async(user_id="ann", session_id=session.id, new_message=asked)
    return [event async for event in events]


async def claude_agent_sdk(desk: Desk) -> object:
    from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query, tool

    @tool("stock", desk.stock.__doc__ or "", {"x": int})
    async def stock(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": await desk.stock(arguments["x"])}]}

    cancel_here(desk)
    home = Path(os.environ["UPSHOT_PLAYS"])
    options = ClaudeAgentOptions(
        model="claude-sonnet-4-5",
        cwd=home,
        mcp_servers={"desk": create_sdk_mcp_server("desk", tools=[stock])},
        tools=[],
        allowed_tools=["mcp__desk__stock"],
        system_prompt="Answer.",
        setting_sources=[],
        max_turns=4,
        env={
            **QUIET,
            "ANTHROPIC_BASE_URL": desk.base_url.removesuffix("/v1"),
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "CLAUDE_CONFIG_DIR": str(home / "claude"),
            "TMPDIR": str(home),
        },
    )
    return [message async for message in query(prompt=PROMPT, options=options)]


async def smolagents(desk: Desk) -> object:
    import warnings

    from smolagents import OpenAIServerModel, ToolCallingAgent, tool
    from smolagents.monitoring import LogLevel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = tool(desk.sync_tool())
    model = OpenAIServerModel(
        model_id=MODEL, api_base=desk.base_url, api_key=KEY, client_kwargs={"max_retries": 0}
    )
    model.retryer.max_attempts = 1
    agent = ToolCallingAgent(
        tools=[made],
        model=model,
        verbosity_level=LogLevel.OFF,
        return_full_result=True,
        max_steps=3,
    )
    desk.cancel = agent.interrupt
    return await asyncio.to_thread(agent.run, PROMPT)


async def langgraph(desk: Desk) -> object:
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    cancel_here(desk)
    model = ChatOpenAI(model=MODEL, base_url=desk.base_url, api_key=KEY, max_retries=0)
    return await create_agent(model, [desk.tool()]).ainvoke({"messages": [("user", PROMPT)]})


async def crewai(desk: Desk) -> object:
    from crewai import LLM, Agent, Crew, Task
    from crewai.tools import tool

    model = LLM(model=f"openai/{MODEL}", base_url=desk.base_url, api_key=KEY, max_retries=0)
    agent = Agent(
        role="clerk",
        goal="Count.",
        backstory="A clerk.",
        llm=model,
        tools=[tool("stock")(desk.sync_tool())],
        max_retry_limit=0,
        max_iter=3,
    )
    task = Task(description=PROMPT, expected_output="A number.", agent=agent)
    cancel_here(desk)
    return await Crew(agents=[agent], tasks=[task]).akickoff()


async def agent_framework(desk: Desk) -> object:
    from agent_framework import Agent
    from agent_framework.openai import OpenAIChatCompletionClient

    cancel_here(desk)
    client = OpenAIChatCompletionClient(model=MODEL, async_client=client_of(desk))
    return await Agent(client=client, tools=[desk.tool()], name="desk").run(PROMPT)


MODULES = Path(__file__).parents[2] / ".venv-adapters" / "node" / "node_modules"
# The environment has a Node of its own where the machine has none.
NODE = shutil.which(
    "node", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
)


async def pi_agent(desk: Desk) -> object:
    process = await asyncio.create_subprocess_exec(
        *(NODE or "node", str(Path(__file__).with_name("pi_play.mjs"))),
        *(str(MODULES), desk.base_url, PROMPT),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    ended = json.loads(said)
    desk.made += ended["made"]
    return ended["messages"]


NATIVE: dict[str, Callable[[Desk], Awaitable[object]]] = {
    one.__name__: one
    for one in (
        pydantic_ai,
        openai_agents,
        langgraph,
        strands,
        agno,
        adk,
        claude_agent_sdk,
        crewai,
        agent_framework,
        smolagents,
        pi_agent,
    )
}
# The names that a model must use.
WORDS: dict[str, dict[str, str]] = {
    "claude_agent_sdk": {"tool": "mcp__desk__stock"},
    "smolagents": {"final": "final_answer"},
}
PACKAGES = {
    "openai_agents": "agents",
    "adk": "google.adk",
}


def is_here(name: str) -> bool:
    """Whether the framework is installed in this environment."""
    if name == "pi_agent":
        # Its packages stand beside the environment of the adapters.
        has_agent = (MODULES / "@mariozechner" / "pi-agent-core").is_dir()
        return has_agent and NODE is not None and MODULES.is_relative_to(Path(sys.prefix))
    try:
        return importlib.util.find_spec(PACKAGES.get(name, name)) is not None
    except ModuleNotFoundError:
        return False


async def play(name: str, case: str) -> tuple[object, Desk]:
    """What the framework gave in one case: what it returned, or the exception."""
    async with Simulator(scenario_of(case, **WORDS.get(name, {}))) as simulator:
        desk = Desk(simulator.base_url)
        # In a task of its own, which a case may cancel.
        work = asyncio.ensure_future(NATIVE[name](desk))
        await asyncio.wait([work])
        if work.cancelled():
            return asyncio.CancelledError(), desk
        return work.exception() or work.result(), desk
