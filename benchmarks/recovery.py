"""What it costs to go on: recovery from a checkpoint, waking, asking whether an effect happened."""

from collections.abc import Callable
from functools import partial
from time import perf_counter

from benchmarks.measure import Bench, Check, Line, Reading, Row, series
from vault import NewEvent, Principal, Trigger, Vault

_EVERY = 50
_EFFECTS = 1_000
_NEVER = Trigger(after_tool=False, every_events=None, every_seconds=None)


def recovery(bench: Bench) -> Row:
    """A long session with a checkpoint every 50 events: the state now, against a replay of all of it."""
    count = 10_000 if bench.quick else 100_000
    with bench.folder() as folder, Vault.create(folder / "v", settings={"synchronous": "NORMAL"}) as vault:
        sessions = vault.access(Principal(tenant="acme", subject="alice")).sessions
        session, short = sessions.create(), sessions.create()
        bench.say(f"filling {count} events")
        with session.run(checkpoints=_NEVER) as run:
            for _ in range(count // _EVERY):
                samples = bench.workload.take(_EVERY - 1)
                run.append_many([NewEvent(type=one.type, payload=one.payload) for one in samples])
                run.checkpoint()
        with short.run(checkpoints=_NEVER) as other:
            for number in range(_EFFECTS):
                other.effect("bench.effect", f"key-{number}").once(lambda _: True)

        def wake() -> None:
            sessions.wake(session.id).run.stop()

        contenders: dict[str, Callable[[int], Reading]] = {
            "recover": partial(_timed, session.recover, 20),
            "full replay": partial(_timed, lambda: sum(1 for _ in session.replay()), 1),
            "wake, with the lease": partial(_timed, wake, 5),
            "last checkpoint of the run": partial(_timed, partial(session.last_checkpoint, run.id), 20),
            f"an effect among {_EFFECTS:,}": partial(
                _timed, partial(short.effects, kind="bench.effect", key="key-7"), 20
            ),
        }
        readings = bench.interleave(contenders, rounds=1 if bench.quick else min(bench.rounds, 3))
    found = {name: series(values, "ms", "ms", name) for name, values in readings.items()}
    share = found["recover"].over(found["full replay"], "recover vs full replay")
    checks = (Check(series=share, bound="≤", target=1 / 50),)
    title = f"recovery, {count:,} events, a checkpoint every {_EVERY}"
    return Row(
        name="recovery", title=title, lines=tuple(Line(main=one) for one in found.values()), checks=checks
    )


def _timed(work: Callable[[], object], times: int, _number: int) -> Reading:
    spent = []
    for _ in range(times):
        before = perf_counter()
        work()
        spent.append((perf_counter() - before) * 1e3)
    return {"ms": sorted(spent)[len(spent) // 2]}
