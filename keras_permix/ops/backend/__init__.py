"""What runs on each backend: one folder for each, and only the one in use is imported."""
