"""Define the layers of Graphormer, with attention or sorting."""
