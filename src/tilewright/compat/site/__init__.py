"""A folder on the path of processes that a program under ``tilewright run`` starts."""
