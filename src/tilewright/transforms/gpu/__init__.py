"""Passes that prepare functions for GPUs."""
