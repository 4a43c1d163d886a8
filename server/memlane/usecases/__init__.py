"""One file for each act; REST, MCP and the command line only translate. Names what it needs in `ports`."""
