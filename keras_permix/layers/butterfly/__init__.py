"""Define the layers of the Dimension Mixer: butterflies and patches."""
