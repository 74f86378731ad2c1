"""Check arguments, handle files, format text, and describe the machine, without Keras."""
