"""What the lab adds to the command line."""
