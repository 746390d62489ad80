"""A desk of another library that is killed in the middle of a run; a test starts it.

Arguments: the library (with _tools at its end the tool is the run's), the address of the simulator,
the journal, the file that the tool writes to, and where the process is killed: "before" or "after"
the tool has written, "second" before it has for order 8, "end" when the last reply has come,
"nowhere".
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.adapters_real.plays import QUIET
from upshot import Agent, FinalizeDecision, Request, resume, run, tool
from upshot.adapters import as_engine
from upshot.errors import UpshotError

RUN = "the-run"


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


class KillsAtEnd:
    def __init__(self, where):
        self.where = where

    def before_finalize(self, info, request, result):
        if self.where == "end":
            kill()
        return FinalizeDecision.accept()


def make_tool(where, wrote):
    def refund(x: int) -> str:
        """Refund an order."""
        if where == "before" or (where == "second" and x == 8):
            kill()
        with wrote.open("a") as file:
            file.write(f"{x}\n")
        if where == "after":
            kill()
        return "refunded"

    return refund


def pydantic_ai_engine(base_url, refund):
    from openai import AsyncOpenAI
    from pydantic_ai import Agent as NativeAgent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(base_url=base_url, api_key="no-key", max_retries=0)
    model = OpenAIChatModel("gpt-5", provider=OpenAIProvider(openai_client=client))
    return as_engine(NativeAgent(model, tools=[refund]))


def openai_agents_engine(base_url, refund):
    from agents import Agent as NativeAgent
    from agents import OpenAIChatCompletionsModel, function_tool
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=base_url, api_key="no-key", max_retries=0)
    model = OpenAIChatCompletionsModel(model="gpt-5", openai_client=client)
    return as_engine(NativeAgent(name="theirs", model=model, tools=[function_tool(refund)]))


def adk_engine(base_url, refund):
    from google.adk.agents import LlmAgent
    from google.adk.models.lite_llm import LiteLlm

    model = LiteLlm(
        model="openai/gpt-5", api_base=base_url, api_key="no-key", num_retries=0, max_retries=0
    )
    return as_engine(LlmAgent(name="theirs", model=model, tools=[refund]))


def strands_engine(base_url, refund):
    from openai import AsyncOpenAI
    from strands import Agent as NativeAgent
    from strands import tool as strands_tool
    from strands.models.openai import OpenAIModel

    def make():
        client = AsyncOpenAI(base_url=base_url, api_key="no-key", max_retries=0)
        model = OpenAIModel(client=client, model_id="gpt-5")
        return NativeAgent(model=model, tools=[strands_tool(refund)], callback_handler=None)

    return as_engine(make)


def agno_engine(base_url, refund):
    from agno.agent import Agent as NativeAgent
    from agno.models.openai import OpenAIChat

    model = OpenAIChat(id="gpt-5", base_url=base_url, api_key="no-key", max_retries=0)
    return as_engine(NativeAgent(model=model, tools=[refund], telemetry=False))


def agent_framework_engine(base_url, refund):
    from agent_framework import Agent as NativeAgent
    from agent_framework.openai import OpenAIChatCompletionClient
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=base_url, api_key="no-key", max_retries=0)
    model = OpenAIChatCompletionClient(model="gpt-5", async_client=client)
    return as_engine(NativeAgent(client=model, tools=[refund]))


def crewai_engine(base_url, refund):
    from crewai import LLM
    from crewai import Agent as NativeAgent
    from crewai.tools import tool as crewai_tool

    model = LLM(model="openai/gpt-5", base_url=base_url, api_key="no-key", max_retries=0)
    own = [crewai_tool("refund")(refund)]
    return as_engine(NativeAgent(role="r", goal="g", backstory="b", llm=model, tools=own))


def smolagents_engine(base_url, refund):
    from smolagents import OpenAIServerModel, Tool, ToolCallingAgent
    from smolagents.monitoring import LogLevel

    class Refund(Tool):
        name, description, output_type = "refund", "Refund an order.", "string"
        inputs = {"x": {"type": "integer", "description": "The order."}}

        def forward(self, x):
            return refund(x)

    options = {"max_retries": 0}
    model = OpenAIServerModel("gpt-5", api_base=base_url, api_key="no-key", client_kwargs=options)
    return as_engine(ToolCallingAgent([Refund()], model, verbosity_level=LogLevel.OFF))


def claude_agent_sdk_engine(base_url, refund):
    from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server
    from claude_agent_sdk import tool as claude_tool

    @claude_tool("refund", "Refund an order.", {"x": int})
    async def make_refund(arguments):
        return {"content": [{"type": "text", "text": refund(arguments["x"])}]}

    home = Path(sys.argv[3]).parent
    options = ClaudeAgentOptions(
        model="claude-sonnet-4-5",
        cwd=home,
        mcp_servers={"own": create_sdk_mcp_server("own", tools=[make_refund])},
        tools=[],
        allowed_tools=["mcp__own__refund"],
        system_prompt="Answer.",
        setting_sources=[],
        env={
            **QUIET,
            "ANTHROPIC_BASE_URL": base_url.removesuffix("/v1"),
            "ANTHROPIC_API_KEY": "no-key",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "CLAUDE_CONFIG_DIR": str(home / "claude"),
        },
    )
    return as_engine(options)


def langgraph_engine(base_url, refund):
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="gpt-5", base_url=base_url, api_key="no-key", max_retries=0)
    return as_engine(create_agent(model, [refund]))


def langgraph_tools_engine(base_url, refund):
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="gpt-5", base_url=base_url, api_key="no-key", max_retries=0)
    return as_engine(lambda tools: create_agent(model, tools))


def one_node_tools_engine(base_url, refund):
    """Calls all tools of a reply in one node, whose results are saved together."""
    from langchain_openai import ChatOpenAI
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    model = ChatOpenAI(model="gpt-5", base_url=base_url, api_key="no-key", max_retries=0)

    def make(tools):
        async def ask(state):
            return {"messages": [await model.bind_tools(tools).ainvoke(state["messages"])]}

        graph = StateGraph(MessagesState)
        graph.add_node("ask", ask)
        graph.add_node("tools", ToolNode(tools))
        graph.add_edge(START, "ask")
        graph.add_conditional_edges("ask", tools_condition)
        graph.add_edge("tools", "ask")
        return graph.compile()

    return as_engine(make)


ENGINES = {
    "pydantic_ai": pydantic_ai_engine,
    "openai_agents": openai_agents_engine,
    "adk": adk_engine,
    "strands": strands_engine,
    "agno": agno_engine,
    "agent_framework": agent_framework_engine,
    "crewai": crewai_engine,
    "smolagents": smolagents_engine,
    "claude_agent_sdk": claude_agent_sdk_engine,
    "langgraph": langgraph_engine,
    "langgraph_tools": langgraph_tools_engine,
    "one_node_tools": one_node_tools_engine,
}


async def main(library, base_url, journal, wrote, where):
    refund = make_tool(where, Path(wrote))
    engine = ENGINES[library](base_url, refund)
    ours = [tool(effect="write")(refund)] if library.endswith("_tools") else []
    agent = Agent("desk", engine=engine, tools=ours, deciders=[KillsAtEnd(where)])
    if Path(journal).exists():
        try:
            result = await resume(RUN, agent, journal=journal)
        except UpshotError as error:
            print(type(error).__name__, error)
            return
    else:
        result = await run(agent, Request("Refund 7", run_id=RUN), journal=journal)
    if result.error is not None:
        print(result.error.code, end=" ")
    outcomes = [type(outcome).__name__ for outcome in result.tool_outcomes]
    print(result.status, result.content, *outcomes)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
