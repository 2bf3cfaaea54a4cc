"""Jobs and the processes they run in: every ending, and that nothing is left behind."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from anybound.errors import InvalidInput
from anybound.memory import resident
from anybound.runtime.job import Crash, Ending, Finished, Job, execute
from anybound.runtime.pool import run_all, run_here, run_one
from anybound.runtime.process import cpu_seconds, server
from anybound.runtime.signals import held, sigterm_interrupts
from anybound.runtime.worker import INTERRUPT, Line, Progress

Report = Callable[[Mapping[str, Any]], None]
CONTEXT = server(("anybound.runtime.worker", __name__))


# Targets; they run in other processes, which import this file.


def add(report: Report, a: int, b: int) -> Mapping[str, Any]:
    report({"sum": None})
    return {"sum": a + b, "pid": os.getpid()}


def fail(report: Report) -> Mapping[str, Any]:
    report({"known": 1})
    raise ZeroDivisionError("by zero")


def refuse(report: Report) -> Mapping[str, Any]:
    raise InvalidInput("got 3, expected 4")


def die(report: Report, number: int) -> Mapping[str, Any]:
    report({"known": 2})
    os.kill(os.getpid(), number)
    return {}


def hang(report: Report, folder: str = "") -> Mapping[str, Any]:
    """Reports, then waits for ever, deaf to everything but an interrupt."""
    report({"known": 3, "pid": os.getpid()})
    if folder:
        (Path(folder) / f"{os.getpid()}").touch()
    time.sleep(1000)
    return {}


def work(report: Report, asleep: float) -> Mapping[str, Any]:
    """Sleeps, then computes for ever."""
    report({"known": 7})
    time.sleep(asleep)
    while True:
        sum(range(1000))


def patient(report: Report) -> Mapping[str, Any]:
    """Has something better to say when it is interrupted."""
    try:
        report({"known": 4})
        time.sleep(1000)
    except KeyboardInterrupt:
        return {"known": 5}
    return {}


def grow(report: Report, size: int) -> Mapping[str, Any]:
    report({"known": 6})
    block = b"x" * size
    time.sleep(1000)
    return {"size": len(block)}


def weigh(report: Report) -> Mapping[str, Any]:
    """What a process of this test needs from the start."""
    return {"resident": resident(os.getpid())}


def shout(report: Report) -> Mapping[str, Any]:
    os.write(1, b"this must not reach standard output\n")
    return {"done": True}


def one(target: str, **arguments: Any) -> Finished:
    return run_one(job(target, **arguments), CONTEXT)


def job(
    target: str,
    seconds: float | None = None,
    memory: int | None = None,
    cpu: float | None = None,
    **given: Any,
) -> Job:
    name = f"test_runtime:{target}"
    return Job(name, given, key=target, seconds=seconds, cpu=cpu, memory=memory)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def test_a_job_here_and_in_a_process() -> None:
    (here,) = run_here([job("add", a=2, b=3)])
    there = one("add", a=2, b=3)
    for finished in (here, there):
        assert finished.ending is Ending.DONE
        assert finished.record is not None
        assert finished.record["sum"] == 5
        assert finished.seconds < 5
    assert here.record is not None
    assert there.record is not None
    assert here.record["pid"] == os.getpid() != there.record["pid"]


@pytest.mark.parametrize("run", [one, lambda target: execute(job(target), lambda record: None)])
def test_a_crash_keeps_its_traceback_and_what_was_known(run: Callable[..., Finished]) -> None:
    finished = run("fail")
    assert finished.ending is Ending.CRASHED
    assert finished.record == {"known": 1}
    assert finished.message == "ZeroDivisionError: by zero"
    assert 'raise ZeroDivisionError("by zero")' in finished.traceback
    refused = run("refuse")
    assert (refused.ending, refused.traceback) == (Ending.REFUSED, "")
    with pytest.raises(InvalidInput, match="got 3, expected 4"):
        refused.check()
    with pytest.raises(Crash, match="ZeroDivisionError: by zero") as caught:
        finished.check()
    assert 'raise ZeroDivisionError("by zero")' in caught.value.__notes__[0]


def test_a_target_that_does_not_exist_is_a_crash() -> None:
    assert one("nothing").ending is Ending.CRASHED
    assert run_one(Job("no.such.module:f"), CONTEXT).ending is Ending.CRASHED


def test_a_process_that_is_killed_is_a_crash() -> None:
    finished = one("die", number=int(signal.SIGKILL))
    assert finished.ending is Ending.CRASHED
    assert finished.record == {"known": 2}
    assert finished.message == "the process ended with signal 9"


def test_the_time_limit_kills() -> None:
    started = time.monotonic()
    finished = one("hang", seconds=0.5)
    assert finished.ending is Ending.TIMEOUT
    assert finished.record is not None
    assert finished.record["known"] == 3
    assert 0.5 <= finished.seconds < 0.8
    assert time.monotonic() - started < 3
    assert not Path(f"/proc/{finished.record['pid']}").exists()


def test_a_limit_that_counts_from_before() -> None:
    late = Job("test_runtime:hang", seconds=10, started=time.monotonic() - 9.8)
    finished = run_one(late, CONTEXT)
    assert finished.ending is Ending.TIMEOUT
    assert 10 <= finished.seconds < 10.5


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is no /proc")
def test_the_memory_limit_kills() -> None:
    base = one("weigh")
    assert base.record is not None
    limit = base.record["resident"] + 200_000_000
    finished = one("grow", memory=limit, seconds=30, size=400_000_000)
    assert finished.ending is Ending.MEMORY
    assert finished.record == {"known": 6}
    assert resident(os.getpid()) > 5_000_000
    assert cpu_seconds(os.getpid()) == pytest.approx(time.process_time(), abs=1.0)
    assert resident(None) == cpu_seconds(None) == 0


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")
def test_the_limit_of_cpu_time_counts_work_and_not_waiting() -> None:
    finished = one("work", cpu=0.5, seconds=60, asleep=1.0)
    assert finished.ending is Ending.TIMEOUT
    assert finished.record == {"known": 7}
    assert finished.cpu_seconds > 0.5
    assert finished.seconds > finished.cpu_seconds + 0.9


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
@pytest.mark.parametrize(("target", "known"), [("hang", 3), ("patient", 5)])
def test_an_interrupt_ends_it_at_once(target: str, known: int, number: signal.Signals) -> None:
    sent: list[float] = []

    def interrupt(record: Mapping[str, Any]) -> None:
        if not sent:
            sent.append(time.monotonic())
            os.kill(os.getpid(), number)

    finished = run_one(job(target), CONTEXT, interrupt)
    assert time.monotonic() - sent[0] < 0.5
    assert finished.ending is Ending.INTERRUPTED
    assert finished.record is not None
    assert finished.record["known"] == known


@pytest.mark.skipif(INTERRUPT is None, reason="there is no such signal")
def test_an_interrupt_waits_for_the_end_of_a_message() -> None:
    sent: list[object] = []

    class Interrupting:
        def send(self, message: object) -> None:
            os.kill(os.getpid(), INTERRUPT)  # type: ignore[arg-type]
            time.sleep(0.01)
            sent.append(message)

    line = Line(Interrupting())  # type: ignore[arg-type]
    before = signal.signal(INTERRUPT, line.interrupted)  # type: ignore[arg-type]
    try:
        with pytest.raises(KeyboardInterrupt):
            line.send(Progress({"known": 1}))
        line.send(Progress({"known": 2}))  # the signal counts once
        assert sent == [Progress({"known": 1}), Progress({"known": 2})]
        signal.signal(INTERRUPT, line.interrupted)  # type: ignore[arg-type]
        with pytest.raises(KeyboardInterrupt):  # at once where nothing is being sent
            signal.raise_signal(INTERRUPT)  # type: ignore[arg-type]
    finally:
        signal.signal(INTERRUPT, before)  # type: ignore[arg-type]


def test_sigterm_is_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with sigterm_interrupts():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
    threads = [threading.Thread(target=lambda: sigterm_interrupts().__enter__())]
    for thread in threads:  # elsewhere it changes nothing
        thread.start()
        thread.join()
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_a_job_prints_is_no_result(capfd: pytest.CaptureFixture[str]) -> None:
    assert one("shout").ending is Ending.DONE
    assert capfd.readouterr().out == ""


def test_many_jobs_at_once_and_one_that_crashes() -> None:
    jobs = [job("add", a=i, b=i) for i in range(6)]
    jobs[2:2] = [job("die", number=int(signal.SIGSEGV)), job("hang", seconds=0.3), job("fail")]
    results = list(run_all(iter(jobs), 3, CONTEXT))
    assert len(results) == 9
    endings = [finished.ending for finished in results]
    assert endings.count(Ending.DONE) == 6
    assert endings.count(Ending.CRASHED) == 2
    assert endings.count(Ending.TIMEOUT) == 1
    records = [r.record for r in results if r.ending is Ending.DONE and r.record is not None]
    assert sorted(record["sum"] for record in records) == [0, 2, 4, 6, 8, 10]
    assert len({record["pid"] for record in records}) == 6  # no job inherits another's memory


def test_no_more_processes_than_asked(tmp_path: Path) -> None:
    jobs = [job("hang", seconds=0.4, folder=str(tmp_path)) for _ in range(4)]
    started = time.monotonic()
    assert len(list(run_all(jobs, 2, CONTEXT))) == 4
    assert time.monotonic() - started > 0.8


def test_closing_the_iterator_kills_what_runs(tmp_path: Path) -> None:
    jobs = [job("add", a=1, b=1), *(job("hang", folder=str(tmp_path)) for _ in range(2))]
    results: Iterator[Finished] = run_all(jobs, 3, CONTEXT)
    next(results)
    deadline = time.monotonic() + 20
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert len(pids) == 2
    results.close()  # type: ignore[attr-defined]  # a generator
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_wait_until_a_process_is_started(number: int) -> None:
    """Cut off while it is started, a process would print that its input ran out, and nobody would end it."""
    done = list[int]()

    def start() -> None:
        with held():
            signal.raise_signal(number)
            done.append(number)

    with sigterm_interrupts(), pytest.raises(KeyboardInterrupt):
        start()
    assert done == [number]
