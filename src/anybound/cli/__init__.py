"""The command line: one file per command, none of which imports heavy packages before it runs."""
