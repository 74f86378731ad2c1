"""What layers are made of; private to this package."""
