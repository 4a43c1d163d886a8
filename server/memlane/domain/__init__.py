"""Pure: what a memory is, and every decision about one. No I/O; the time is handed in."""
