"""REST: every URL in one table; a handler translates HTTP to one use case and its outcome back."""
