"""Define, run and record the Long Range Arena."""
