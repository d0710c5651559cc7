import threading

from worker.records.job_store import MOST_ATTEMPTS, Attempt, Attempts
from worker.storage.identifiers import utc_now
from worker.storage.object_store import Store

JOB = "1" * 32


def attempt(token: str) -> Attempt:
    return Attempt(started=utc_now(), host="here", worker="w", token=token)


def test_so_many_and_no_more(store: Store) -> None:
    attempts = Attempts(store, JOB)
    assert [attempts.begin(attempt("t")) for _ in range(MOST_ATTEMPTS + 1)] == [1, 2, 3, None]


def test_no_two_begin_the_same(store: Store) -> None:
    begun: list[int | None] = []
    threads = [
        threading.Thread(target=lambda: begun.append(Attempts(store, JOB).begin(attempt("t")))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(number for number in begun if number) == [1, 2, 3]


def test_tells_what_is_known_of_each_death(store: Store) -> None:
    attempts = Attempts(store, JOB)
    for token in "abc":
        attempts.begin(attempt(token))
    attempts.record_death("a", "the process was ended by SIGSEGV")
    attempts.record_death("a", "somebody else saw it too")
    assert attempts.record_death("z", "it never began") == 0
    problem = attempts.exhausted_problem()
    assert problem.type == "/problems/worker_lost"
    first, second, third = problem.detail.split("; attempt")
    assert "attempt 1 on here" in first
    assert first.endswith("the process was ended by SIGSEGV")
    assert "no cause was recorded" in second
    assert "no cause was recorded" in third


def test_rests_longer_after_each_death(store: Store) -> None:
    attempts = Attempts(store, JOB)
    pauses = []
    for token in "abc":
        attempts.begin(attempt(token))
        pauses.append(attempts.record_death(token, "the process was ended by SIGKILL"))
    assert pauses == [1, 4, 0]
