"""A circuit breaker: pure, with the time handed in."""


class CircuitBreaker:
    """Stops calls to a provider that keeps failing, and lets a single trial through now and then.

    Closed until `threshold` failures in a row; then open for `open_seconds`; then half-open: one call at a
    time is admitted, whose success closes it and whose failure opens it again.

    Concurrency: none of its own; all calls come from one event loop. Every `admit` that answers True is
    followed by exactly one of `record_success`, `record_failure` and `abandon`.

    Args:
        threshold: Failures in a row that open it, 1 or more.
        open_seconds: How long it stays open, above 0. At two seconds a provider that is back is noticed well
            within the 5 s in which every request must be answered.
    """

    def __init__(self, *, threshold: int = 5, open_seconds: float = 2.0) -> None:
        self._threshold = threshold
        self._open_seconds = open_seconds
        self._failures = 0
        self._open_until: float | None = None
        self._trial_started: float | None = None

    def admit(self, now: float) -> bool:
        """Whether a call may be made at `now` (seconds of a monotonic clock)."""
        if self._open_until is None:
            return True
        if now < self._open_until or self._trial_started is not None:
            return False
        self._trial_started = now
        return True

    def seconds_until_trial(self, now: float) -> float:
        """How long calls are refused for sure; 0 when closed or when only a trial is awaited."""
        return max(0.0, (self._open_until or now) - now)

    def record_success(self) -> None:
        """An admitted call was answered."""
        self._failures = 0
        self._open_until = None
        self._trial_started = None

    def record_failure(self, now: float) -> None:
        """An admitted call failed at `now`."""
        self._failures += 1
        if self._trial_started is not None or self._failures >= self._threshold:
            self._open_until = now + self._open_seconds
        self._trial_started = None

    def abandon(self) -> None:
        """An admitted call was given up by its caller: that says nothing, but frees a trial's place."""
        self._trial_started = None
