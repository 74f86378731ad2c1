"""The data of the Long Range Arena: made anew by its rules, or read from its files."""
