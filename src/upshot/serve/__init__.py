"""An App behind HTTP: a console that shows its runs, an inbox, and the protocols of others.

``App.asgi(user=...)`` gives an ASGI application. The parts:

- ``users`` has ``User``: who asks, and what that one may do.
- ``site`` has ``Site``: what every door shares; whose a run is, who may answer, and submitting.
- ``guard`` is what every request passes: allowed hosts and origins, rates, headers.
- ``console`` has the routes of the pages and their JSON.
- ``public`` has ``public_events``: what a run tells its user, which doors map.
- ``doors`` has a module for each protocol; each maps events to its own form and back.

What always holds:

- There is always somebody: a request without a user gets nothing but the sign-in page.
- A run or conversation belongs to its first user; to others it is as if it were not there.
- Runs are driven by workers on the journal, never by a request: a client that goes away ends
  nothing, and finds the run again.
- ``by`` and ``tenant`` come from the user, never from a body.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.serve.public import public_events as public_events
    from upshot.serve.users import User as User
