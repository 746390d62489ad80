"""A provider simulator: real HTTP on loopback, scripted replies, real limits, chosen faults.

It speaks OpenAI Chat Completions and Anthropic Messages, plain and streamed. It has its own code
for their wire forms, so the code that reads them is tested against something that does not share
its mistakes.

Its parts: ``scenario`` (the answers, as plain data), ``faults`` (what goes wrong),
``token_buckets`` (rate limits), ``provider`` (chooses the reply to a request and fills in its
templates), ``chat_api`` and ``messages_api`` (the two wire forms), ``exchange`` (the values that
pass between these, and what both forms share), and ``simulator``, with recorded replies, over
``http_server`` (the only module that needs aiohttp).

A request comes in as ``Received``. Its API reads it as an ``Ask``: the model, the number of
assistant messages, what templates may quote. The script picks the reply by that number and fills
it in as a ``Turn``. The limits are checked, then the faults; the API encodes the turn as bytes, and
the server plays them as a ``Playback``.

Only the levels of limits and the remaining faults are remembered between requests, so a client that
was killed can continue with another simulator of the same scenario. The trap: a reply is chosen by
counting assistant messages, so a client that shortens its history gets an earlier reply again.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.sim.exchange import Received as Received
    from upshot.sim.faults import (
        CutFault as CutFault,
        ErrorFault as ErrorFault,
        Fault as Fault,
        HangFault as HangFault,
        MalformedFault as MalformedFault,
        PageFault as PageFault,
        ResetFault as ResetFault,
        SlowFault as SlowFault,
        StatusFault as StatusFault,
    )
    from upshot.sim.scenario import (
        Latency as Latency,
        Reply as Reply,
        Scenario as Scenario,
        ScriptedCall as ScriptedCall,
        Tokens as Tokens,
        read_scenario as read_scenario,
    )
    from upshot.sim.simulator import (
        Recorded as Recorded,
        Simulator as Simulator,
        serve_forever as serve_forever,
    )
    from upshot.sim.token_buckets import Limits as Limits
