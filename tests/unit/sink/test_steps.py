import httpx
import structlog

from tailrace_sink.daemon.endpoint import endpoint
from tailrace_sink.daemon.status_board import SinkBoard
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.watch.hang_detector import Part, Steps
from tailrace_sink.watch.metrics import SinkMetrics


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def steps_at(clock: Clock) -> Steps:
    return Steps(60, clock)


def test_who_does_not_work_hangs_not():
    clock = Clock()
    steps = steps_at(clock)
    with steps.working(Part.LOG):
        pass
    clock.now += 3600
    steps.stepped(Part.LOG)
    clock.now += 3600
    assert steps.hang() is None


def test_work_without_a_step_hangs_and_a_step_ends_that():
    clock = Clock()
    steps = steps_at(clock)
    with steps.working(Part.FOLD):
        clock.now += 60
        assert steps.hang() is None
        clock.now += 1
        told = steps.hang()
        assert told is not None
        assert told.startswith("a batch of the tables has made no progress for 61 s")
        steps.stepped(Part.LOG)  # another's
        assert steps.hang() == told
        steps.stepped(Part.FOLD)
        assert steps.hang() is None
        clock.now += 61
        assert steps.hang() is not None
    assert steps.hang() is None


def test_a_long_job_gets_on_by_its_tasks():
    clock = Clock()
    steps = steps_at(clock)
    with steps.working(Part.LOG), steps.working(Part.FOLD):
        for ended in range(10):
            steps.saw_tasks({7: ended})
            clock.now += 50
            assert steps.hang() is None
        # The next stage begins, the one after has no task that ends.
        steps.saw_tasks({8: 0})
        clock.now += 60
        steps.saw_tasks({8: 0})
        assert steps.hang() is None
        clock.now += 1
        assert "has made no progress for 561 s" in str(steps.hang())


def test_one_stage_that_stands_is_not_hidden_by_others():
    clock = Clock()
    steps = steps_at(clock)
    with steps.working(Part.FOLD):
        for ended in range(5):
            steps.saw_tasks({7: 3, 8: ended})
            clock.now += 20
        told = steps.hang()
    assert told is not None
    assert told.startswith("a batch of the tables has made no progress for 100 s")


def test_what_the_stream_s_jobs_do_explains_nothing_of_the_fold():
    clock = Clock()
    steps = steps_at(clock)
    with steps.working(Part.LOG), steps.working(Part.FOLD):
        for ended in range(3):
            steps.saw_tasks({7: ended}, of_stream={7})
            clock.now += 21
        told = steps.hang()
        assert told is not None
        assert told.startswith("a batch of the tables has made no progress for 63 s")
        steps.saw_tasks({7: 3, 9: 0}, of_stream={7})
        assert steps.hang() is None  # a job of its own has begun
        steps.saw_tasks({7: 4}, of_stream={7})
        assert steps.hang() is None  # and ended


def test_a_jvm_that_does_not_answer_is_noticed_though_tasks_ended_before():
    clock = Clock()
    steps = steps_at(clock)
    with steps.working(Part.STREAM):
        clock.now += 40
        steps.saw_tasks({7: 1})
        clock.now += 21
        assert "the stream of progress records" in str(steps.hang())


def test_the_endpoint_tells_it():
    config = SinkConfig.load(
        {
            "kafka": {"bootstrap": "127.0.0.1:1"},
            "registry": {"url": "http://127.0.0.1:1"},
            "prefix": "p",
            "lake": "/lake",
            "metrics_port": 0,
        }
    )
    clock, metrics = Clock(), SinkMetrics()
    board = SinkBoard(config, metrics)
    board.steps = steps_at(clock)
    board.enter("running")
    with (
        structlog.testing.capture_logs() as told,
        endpoint(config, metrics, board),
        httpx.Client(base_url=told[0]["url"], trust_env=False) as client,
    ):
        assert [client.get(path).status_code for path in ("/health", "/ready")] == [200, 200]
        with board.steps.working(Part.LOG):
            clock.now += 90
            for path in ("/health", "/ready"):
                answer = client.get(path)
                assert answer.status_code == 503
                assert answer.text.startswith("a cut of the log has made no progress for 90 s")
            assert client.get("/metrics").status_code == 200
        assert [client.get(path).status_code for path in ("/health", "/ready")] == [200, 200]
