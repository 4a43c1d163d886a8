from memlane.embedding.breaker import CircuitBreaker


def opened(at: float = 0.0) -> CircuitBreaker:
    breaker = CircuitBreaker(threshold=3, open_seconds=2.0)
    for _ in range(3):
        assert breaker.admit(at)
        breaker.record_failure(at)
    return breaker


def test_it_admits_everything_until_the_threshold_of_failures_in_a_row() -> None:
    breaker = CircuitBreaker(threshold=3)
    for _ in range(5):
        breaker.record_failure(0.0)
        breaker.record_failure(0.0)
        assert breaker.admit(0.0)
        breaker.record_success()
    assert breaker.admit(0.0)


def test_an_open_breaker_admits_nothing_for_its_time_and_says_how_long() -> None:
    breaker = opened()
    assert not breaker.admit(0.0)
    assert not breaker.admit(1.99)
    assert breaker.seconds_until_trial(0.5) == 1.5


def test_a_half_open_breaker_admits_a_single_trial() -> None:
    breaker = opened()
    assert breaker.admit(2.0)
    assert not breaker.admit(2.0)
    assert not breaker.admit(60.0)


def test_a_trial_that_succeeds_closes_it() -> None:
    breaker = opened()
    assert breaker.admit(2.0)
    breaker.record_success()
    assert breaker.admit(2.0)
    assert breaker.admit(2.0)
    assert breaker.seconds_until_trial(2.0) == 0.0


def test_a_trial_that_fails_opens_it_again() -> None:
    breaker = opened()
    assert breaker.admit(2.0)
    breaker.record_failure(3.0)
    assert not breaker.admit(4.9)
    assert breaker.admit(5.0)


def test_a_trial_that_is_given_up_leaves_its_place_to_the_next() -> None:
    breaker = opened()
    assert breaker.admit(2.0)
    breaker.abandon()
    assert breaker.admit(2.0)


def test_calls_admitted_before_it_opened_do_not_prolong_it_without_bound() -> None:
    breaker = opened(at=0.0)
    breaker.record_failure(1.0)  # was under way when the breaker opened
    assert not breaker.admit(2.5)
    assert breaker.admit(3.0)
