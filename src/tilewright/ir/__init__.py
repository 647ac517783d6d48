"""Tile IR: the typed, structured SSA form that every front end produces and every back end consumes."""
