"""Generate or read the data of the Long Range Arena."""
