"""What a table holds before anything is trained on it: roles of columns, findings, and a command."""
