"""What an engine is given: the run, its host, questions to the user, and keyed steps."""
