"""A mixer of tokens, a mixer of channels, residuals and normalization."""
