"""ARC-AGI: grids of colours; did the model draw the one that the examples lead to."""
