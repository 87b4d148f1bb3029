"""A batch through one linear layer: factor, propose, select, scale (SPEAR's pipeline)."""
