"""Graphormer on the gap of QM9's molecules: the twin of `slicegraphormer/qm9_gap` that attends."""

base = "slicegraphormer/qm9_gap"
model = dict(class_name="Graphormer")
