"""One file per command, its `COMMAND` listed in `anybound.cli.main`."""
