"""Rate limits: kept in Redis where there is one, so that they hold over all processes, else in each process."""
