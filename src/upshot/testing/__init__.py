"""For tests of agents and of your own implementations: contract suites and doubles.

A suite is a class with async tests for pytest-asyncio: inherit it and define ``make``. Each test
makes its subject in its own event loop, checks that it has the methods of its role, uses it, and
closes it again. The parts:

- ``suite`` has what all suites share: making and checking the subject, runs that use it, and what
  an observer saw of them.
- ``adapter_contract``, ``engine_contract``, ``host_contract``, ``hook_contracts`` (observers and
  deciders), ``journal_contract``, ``model_contract``, ``tool_contract`` and ``transport_contract``
  are the suites, one for each protocol.
- ``doubles`` has test doubles: ``ScriptedTool``, ``FakeClock``, and tools that fail at a chosen
  moment. ``ScriptedModel`` is in ``upshot.models``. They do not need pytest.
- ``plugin`` has the fixtures for pytest; load it as a pytest plugin.
- ``cases_marker`` has the marker ``upshot_cases``, which pytest finds by itself, and ``cases`` what
  a marked test gets.

Invariants:

- A suite tests behaviour that callers rely on, through the same calls as a run; it never reads
  private attributes.
- A failed assertion says what the subject did and what was expected, so that its author need not
  read the suite. Optional parts of the contract are skipped with a reason.
- The suites pass for every implementation that ships with upshot.

Traps: a subject that ignores its cancellation keeps pytest from closing the loop. Assert rewriting
is registered when this package is imported, so import it after pytest.
"""

import sys

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.models.scripted import ScriptedModel as ScriptedModel
    from upshot.testing.adapter_contract import AdapterContract as AdapterContract
    from upshot.testing.cases import RunnableCase as RunnableCase
    from upshot.testing.doubles import (
        CrashAfterStart as CrashAfterStart,
        FakeClock as FakeClock,
        LateReturn as LateReturn,
        ScriptedTool as ScriptedTool,
        TimeoutAfterEffect as TimeoutAfterEffect,
    )
    from upshot.testing.engine_contract import EngineContract as EngineContract
    from upshot.testing.hook_contracts import (
        DeciderContract as DeciderContract,
        ObserverContract as ObserverContract,
    )
    from upshot.testing.host_contract import HostContract as HostContract
    from upshot.testing.journal_contract import JournalContract as JournalContract
    from upshot.testing.model_contract import ModelContract as ModelContract
    from upshot.testing.tool_contract import ToolContract as ToolContract
    from upshot.testing.transport_contract import (
        TransportContract as TransportContract,
        check_transport as check_transport,
    )

_pytest = sys.modules.get("pytest")
if _pytest is not None:
    # Shows what differs in failed comparisons of a suite. Nothing here needs pytest.
    from pkgutil import iter_modules

    _pytest.register_assert_rewrite(*(f"{__name__}.{one.name}" for one in iter_modules(__path__)))
