"""How large the tables are that the numbers of a graph are looked up in."""

ROWS = 512  # of degrees, of distances, and of one feature of a node or an edge
