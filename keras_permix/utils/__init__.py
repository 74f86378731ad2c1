"""Helpers without Keras: checks of arguments, files, text for people, the machine."""
