"""Load texts, and encode them as padded batches of tokens."""
