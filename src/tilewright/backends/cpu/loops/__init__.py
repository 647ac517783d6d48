"""From Tile IR to the loop-level form (see ``ir.ops.loops``): which ops are fused, and where every tile lies."""
