"""What this process gets from the system: environment variables and folders."""
