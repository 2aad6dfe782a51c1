"""ARC-AGI: grids of colours. The verifier checks whether the model's grid is the right one."""
