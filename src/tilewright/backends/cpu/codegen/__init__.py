"""LLVM IR for the loop-level form."""
