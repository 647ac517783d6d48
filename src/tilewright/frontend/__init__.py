"""Front ends: source code to ``ir.Function``."""
