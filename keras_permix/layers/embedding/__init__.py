"""From what a user has to tokens."""
