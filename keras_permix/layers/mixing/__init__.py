"""Define layers that mix tokens by permuting them, and baselines without parameters."""
