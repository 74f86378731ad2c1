"""The Long Range Arena: its recipes, what papers report, and what was measured: `permix lra`."""
