"""Op builders: what each function, method and operator of tile code emits."""
