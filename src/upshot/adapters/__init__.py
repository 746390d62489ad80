"""Turns results of other agent libraries into ``AgentResult``s, and their agents into engines.

One function per library takes whatever that library returned or raised:

- ``from_litellm``, ``from_aisuite``: model calls and agent runs of the chat clients.
- ``from_openai_agents``, ``from_pydantic_ai``, ``from_smolagents``, ``from_pi_agent``,
  ``from_langchain``, ``from_langgraph``, ``from_strands``, ``from_agno``, ``from_adk``,
  ``from_claude_agent_sdk``, ``from_crewai``, ``from_agent_framework``: results of runs, messages,
  and exceptions.

``as_engine`` makes an engine of an agent: ``engine_calls`` routes its model and tool calls through
the run; ``agent_engine`` is what engines share that wrap the model and the tools of an agent, and
``thread_engine`` what those share whose library works in threads. The modules named after a library
use its hooks. Only these import it, when it is used.

Reading results imports none of the libraries and does not need them installed: ``upshot.native``
reads their objects by attribute or key, so an object's JSON form works as well.

The life of a result: the adapter walks the native object in order and collects what it finds in a
``Findings`` (messages, outcomes of tool calls, usage, cost, limits). ``Findings.to_result`` makes
the result: it derives the status from the error, the content from the last assistant message, and a
record for each outcome. An exception goes through ``find_failure``, which classifies it by the same
rules as a failed model call, unless the adapter's table has a code for its class.

Invariants:

- An adapter never raises, whatever it is given.
- What the native object does not contain is None in the result and listed in
  ``metadata["unknown"]``; every estimate is marked as one.
- The native object is ``result.raw``, in this process only.
- The effect of a tool call that ran is unknown, since no library reports it.

Traps of engines: a library may swallow what its hook raises, so the signal that ends a run is
stored (``EngineCalls.stop``) and raised again at the next call and at the end. When plain code
calls an async callback of LangChain, that cannot stop it; a plain callback can.

Traps: libraries count cached tokens differently (each adapter documents how at its top); AISuite
reports Anthropic's input without the cached part; smolagents puts the output of all calls of a step
in one text; and some exceptions carry a part of the run, which is preserved.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.adapters.adk import from_adk as from_adk
    from upshot.adapters.agent_framework import from_agent_framework as from_agent_framework
    from upshot.adapters.agno import from_agno as from_agno
    from upshot.adapters.chat_clients import (
        from_aisuite as from_aisuite,
        from_litellm as from_litellm,
    )
    from upshot.adapters.claude_agent_sdk import from_claude_agent_sdk as from_claude_agent_sdk
    from upshot.adapters.crewai import from_crewai as from_crewai
    from upshot.adapters.foreign_engines import as_engine as as_engine
    from upshot.adapters.langchain import (
        from_langchain as from_langchain,
        from_langgraph as from_langgraph,
    )
    from upshot.adapters.openai_agents import from_openai_agents as from_openai_agents
    from upshot.adapters.pi_agent import from_pi_agent as from_pi_agent
    from upshot.adapters.pydantic_ai import from_pydantic_ai as from_pydantic_ai
    from upshot.adapters.smolagents import from_smolagents as from_smolagents
    from upshot.adapters.strands import from_strands as from_strands
