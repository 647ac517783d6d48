"""Analyses for GPUs: what is decided about a function before it is lowered for one."""
