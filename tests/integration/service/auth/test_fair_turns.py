"""Who gets a turn, and who waits in vain."""

import asyncio
import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from starlette.concurrency import run_in_threadpool

from service.auth.concurrency import FairSemaphore, OwnerSlots, check_stream_slots
from service.http.problems import ProblemError
from tests.helpers.idle_service import Quiet, a_model, quiet_service
from worker.identity.api_keys import ApiKeys
from worker.inspection.inspector import Planner

Check = Callable[..., dict]
POOL = 40  # threads, in which all routes wait that are no coroutines


class Work:
    """Work whose end the test decides; ``done``: whose it was, in the order of turns."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._go: dict[str, threading.Semaphore] = defaultdict(lambda: threading.Semaphore(0))

    def of(self, owner: str) -> Callable[[], str]:
        go = self._go[owner]

        def work() -> str:
            self.done.append(owner)
            assert go.acquire(timeout=20)
            return owner

        return work

    def end(self, count: int, *owners: str) -> None:
        """End so many of each of the owners, or of all."""
        for owner in owners or self._go:
            self._go[owner].release(count)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - threads do what it waits for
            await asyncio.sleep(0.001)


def test_turns_go_round_by_owner_and_those_who_wait_take_no_thread() -> None:
    async def main() -> None:
        turns, work = FairSemaphore(2, 60, "tests are under way"), Work()
        asked = []
        for owner in [*["many"] * 3 * POOL, "one", "two", "two"]:
            asked.append(asyncio.create_task(turns.run(work.of(owner), owner)))
            await asyncio.sleep(0)
        await until(lambda: len(work.done) == 2)
        assert await asyncio.wait_for(run_in_threadpool(lambda: "answered"), 20) == "answered"
        work.end(2, "many")  # both are of the same owner; then nobody has more than one
        await until(lambda: len(work.done) == 4)
        assert sorted(work.done[2:]) == ["one", "two"]
        work.end(1, "one", "two")
        await until(lambda: len(work.done) == 6)
        assert sorted(work.done[4:]) == ["many", "two"]
        work.end(len(asked))
        assert len(await asyncio.gather(*asked)) == len(asked)

    asyncio.run(main())


def test_no_turn_is_lost_by_those_who_give_up() -> None:
    async def main() -> None:
        turns, work = FairSemaphore(1, 0.2, "tests are under way"), Work()
        first = asyncio.create_task(turns.run(work.of("a"), "a"))
        await until(lambda: work.done == ["a"])
        late = [asyncio.create_task(turns.run(work.of(owner), owner)) for owner in "abc"]
        gone = [asyncio.create_task(turns.run(work.of("d"), "d")) for _ in range(5)]
        await asyncio.sleep(0.05)
        for task in gone:
            task.cancel()
        for task in late:
            with pytest.raises(ProblemError, match="1 tests are under way, as many as may be") as caught:
                await task
            assert caught.value.problem.type == "/problems/busy"
            assert caught.value.headers == {"Retry-After": "5"}
        last = asyncio.create_task(turns.run(work.of("e"), "e"))
        await asyncio.sleep(0.05)
        leaving = asyncio.create_task(turns.run(work.of("f"), "f"))
        await asyncio.sleep(0)
        leaving.cancel()  # at the moment at which its turn may come
        work.end(10, *"aefg")
        assert (await first, await last) == ("a", "e")
        with contextlib.suppress(asyncio.CancelledError):
            await leaving
        assert await turns.run(work.of("g"), "g") == "g"

    asyncio.run(main())


def test_failing_work_leaves_its_turn() -> None:
    def fail() -> None:
        raise ValueError("it failed")

    async def main() -> None:
        turns = FairSemaphore(1, 5, "tests are under way")
        for _ in range(3):
            with pytest.raises(ValueError, match="it failed"):
                await turns.run(fail, "a")
        assert await turns.run(lambda: 1, "b") == 1

    asyncio.run(main())


def test_places_of_an_owner_and_of_all() -> None:
    places = OwnerSlots(5, 0.4)
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            check_stream_slots(places, "a")
            stack.enter_context(places.hold("a"))
        with pytest.raises(ProblemError, match="2 streams of events of yours") as caught:
            check_stream_slots(places, "a")
        assert (caught.value.problem.type, caught.value.problem.status) == ("/problems/too-many-at-once", 429)
        for owner in "bbc":
            check_stream_slots(places, owner)
            stack.enter_context(places.hold(owner))
        with pytest.raises(ProblemError, match="5 streams of events are open") as caught:
            check_stream_slots(places, "c")
        assert (caught.value.problem.type, caught.value.problem.status) == ("/problems/busy", 503)
        assert places.available("d") == 0
    assert places.available("a") == 2
    assert OwnerSlots(3, 0.1).available("a") == 1


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    """Few may follow, and one dry run is made at a time."""
    few = {"streams_at_once": 4, "streams_share": 0.5}
    with quiet_service(tmp_path_factory.mktemp("narrow"), auth="keys", plans_at_once=1, **few) as made:
        yield made


@contextlib.contextmanager
def another(narrow: Quiet) -> Iterator[tuple[httpx2.Client, str]]:
    """Another owner's client, and a job of his."""
    key = ApiKeys(narrow.store).add("another", "another")[1]
    headers = {"Authorization": f"Bearer {key}"}
    with httpx2.Client(base_url=narrow.client.base_url, timeout=30, headers=headers) as client:
        model = client.post("/v1/models", content=a_model(0)).json()["id"]
        yield client, client.post("/v1/jobs", json={"model": model, "accelerator": "vta"}).json()["id"]


@pytest.mark.slow
def test_one_who_follows_and_waits_as_much_as_he_may_shuts_out_nobody(narrow: Quiet, is_problem: Check) -> None:
    job = narrow.post(narrow.request(seed=21))["id"]
    token = narrow.client.post(f"/v1/jobs/{job}/share").json()["token"]
    with another(narrow) as (other, theirs), contextlib.ExitStack() as stack, ThreadPoolExecutor(4) as threads:
        for _ in range(2):
            stream = stack.enter_context(narrow.client.stream("GET", f"/v1/jobs/{job}/events"))
            assert stream.status_code == 200
        refused = narrow.client.get(f"/v1/jobs/{job}/events")
        assert is_problem(refused, 429, "too-many-at-once")["detail"].startswith("2 streams of events of yours")
        assert int(refused.headers["Retry-After"]) > 0
        with httpx2.Client(base_url=narrow.client.base_url) as guest:
            shared = {"params": {"share": token}}
            linked = stack.enter_context(guest.stream("GET", f"/v1/jobs/{job}/events", **shared))
            assert linked.status_code == 200  # an account of its own: who has the link cannot shut out the owner
        theirs_stream = stack.enter_context(other.stream("GET", f"/v1/jobs/{theirs}/events"))
        assert theirs_stream.status_code == 200
        wait = {"Prefer": "wait=3"}
        waiting = [threads.submit(narrow.client.get, f"/v1/jobs/{job}", headers=wait) for _ in range(4)]
        answers = [each.result() for each in waiting]
        assert sorted("preference-applied" in answer.headers for answer in answers) == [False, False, True, True]
        waited = other.get(f"/v1/jobs/{theirs}", headers={"Prefer": "wait=0"})
        assert waited.headers["preference-applied"] == "wait=0"
    narrow.client.post(f"/v1/jobs/{job}/cancel")


@pytest.mark.slow
def test_dry_runs_wait_for_their_turn_and_stall_no_other_request(
    narrow: Quiet, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = threading.Event()

    def plan(*_: object) -> bytes:
        assert end.wait(20)
        return b"{}"

    monkeypatch.setattr(Planner, "plan", plan)

    def dry_run(_: int) -> int:
        with httpx2.Client(base_url=narrow.client.base_url, timeout=30, headers=narrow.client.headers) as client:
            return client.post("/v1/jobs?dry_run=true", json=narrow.request()).status_code

    with ThreadPoolExecutor(POOL + 5) as threads:
        runs = [threads.submit(dry_run, number) for number in range(POOL + 5)]
        try:
            while not any(narrow.settings.scratch_dir.glob("plan-*")):
                assert not any(run.done() for run in runs)
            for _ in range(20):
                assert narrow.client.get(f"/v1/models/{narrow.model}").status_code == 200
            assert not any(run.done() for run in runs)
        finally:
            end.set()
        assert {run.result() for run in runs} == {200}
