"""A desk whose refunds are recorded, and a report on it."""

from upshot import Agent, Request, ScriptedModel, ToolCall, ToolError, lab, run, tool
from upshot.journal import MemoryJournal


@tool(effect="read")
def find(id: int) -> str:
    """Find an order."""
    if id == 3:
        raise ToolError("no such order")
    return f"order {id}"


@tool(effect="write")
def refund(id: int) -> str:
    """Refund an order."""
    return f"refunded {id}"


def desk(more: int = 0) -> Agent:
    def reply(messages):
        id = int(messages[0].text.split()[-1])
        done = [one for one in messages if one.tool_call_id]
        if len(done) == 2 or (done and "no such" in done[0].text):
            return f"Order {id} is refunded." if len(done) == 2 else "There is no such order."
        call = ("refund", {"id": id + more}) if done else ("find", {"id": id})
        return ToolCall(f"c{len(done)}", *call)

    return Agent("desk", model=ScriptedModel(reply), tools=[find, refund])


async def recorded(numbers: range = range(1, 5)) -> lab.Dataset:
    journal = MemoryJournal()
    for id in numbers:
        request = Request(f"Refund order {id}", run_id=f"r{id}")
        await run(desk(), request, journal=journal, attributes={"level": id})
    return await lab.Dataset.from_journal(journal, name="refunds")


async def reported(scorers=(), repeat: int = 1) -> lab.Report:
    variants = {"today": desk(), "hasty one": desk(100)}
    return await lab.run(
        await recorded(),
        variants,
        scorers=[lab.same_effects(), *scorers],
        repeat=repeat,
        journal="memory:",
    )
