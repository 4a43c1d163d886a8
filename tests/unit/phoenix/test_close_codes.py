from memlane.phoenix.close_codes import CloseCode


def test_code_1000_is_never_used() -> None:
    assert 1000 not in set(CloseCode)


def test_every_code_says_what_it_means_and_whether_the_client_may_come_back() -> None:
    assert {int(code): code.may_return for code in CloseCode} == {
        1001: True,
        1002: False,
        1003: False,
        1009: False,
        1011: True,
        1012: True,
    }
    assert all(code.meaning.endswith(".") for code in CloseCode)
