"""A provider simulator: real HTTP on loopback, scripted replies, real limits, chosen faults.

It speaks OpenAI Chat Completions and Anthropic Messages, plain and streamed, and it writes their
wire forms itself, so that what reads them is tested by something that does not share its mistakes.
Its scenarios: :mod:`.scenario`.
"""

from upshot.sim.exchange import Received
from upshot.sim.faults import (
    CutFault,
    ErrorFault,
    Fault,
    HangFault,
    MalformedFault,
    PageFault,
    ResetFault,
    SlowFault,
    StatusFault,
)
from upshot.sim.scenario import Latency, Reply, Scenario, ScriptedCall, Tokens, read_scenario
from upshot.sim.simulator import Simulator, serve_forever
from upshot.sim.tape import Recorded
from upshot.sim.token_buckets import Limits

__all__ = [
    "CutFault",
    "ErrorFault",
    "Fault",
    "HangFault",
    "Latency",
    "Limits",
    "MalformedFault",
    "PageFault",
    "Received",
    "Recorded",
    "Reply",
    "ResetFault",
    "Scenario",
    "ScriptedCall",
    "Simulator",
    "SlowFault",
    "StatusFault",
    "Tokens",
    "read_scenario",
    "serve_forever",
]
