"""Tile IR: the typed, structured SSA form that every front end produces and every backend consumes."""
