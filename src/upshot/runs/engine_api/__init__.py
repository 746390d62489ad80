"""What an engine gets: the run, its host, questions to the user, and keyed steps."""
