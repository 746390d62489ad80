"""Desks: for each framework, an agent with one tool, ``refund``, and a model that plays a script.

Each module has ``PACKAGES``, the distributions whose versions are shown, and
``talk(refund, play, session=, folder=)``, one run of the agent in a conversation, with the
framework's own persistence in *folder*, as its documents recommend. What the tool returned or
raised reaches the script's ``Play`` in the words that the model reads. An exception of the
framework is raised.
"""
