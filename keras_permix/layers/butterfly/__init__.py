"""The Dimension Mixer: butterflies and patches."""
