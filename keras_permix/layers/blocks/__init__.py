"""Combine mixers of tokens and channels, residuals and normalization."""
