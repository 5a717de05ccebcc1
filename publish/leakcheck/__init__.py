"""The leak check: nothing that follows from a private seed is published."""
