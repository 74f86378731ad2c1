"""Share private helpers of layers."""
