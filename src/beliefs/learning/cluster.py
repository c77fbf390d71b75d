"""The same fit on many machines: shards of the data on the workers of a dask cluster.

    with beliefs.cluster(client):
        GridCRF(...).fit(X, Y)

Instances are cut into shards, by their sizes alone, and each is sent once to one worker, where it stays with what
losses remember. A step sends the weights to every worker and gets back a few sums (:mod:`beliefs.learning.shards`):
traffic does not grow with the data, and the scheduler sees one task a worker. Guarantee: the bytes of a sum do not
depend on the number of workers, nor on which of them holds what; sums by threads in one process add in another order,
and agree to rounding. Losses that go on from earlier messages agree to the tolerance of their inference.

A worker that is lost costs its shards, which are sent again to others, with what it was computing; one that joins takes
shards from those that have most. A scheduler that is lost ends the fit with an error, after the checkpoint is written.
Failure: BudgetError, before anything is sent, where a worker has not the memory for its share of the data.
"""

from __future__ import annotations

import time
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from beliefs.errors import BeliefsError
from beliefs.inference.budget import over_budget
from beliefs.inference.engine import Engine, engaged
from beliefs.learning.shards import Missing, Request, drop, evaluate, layout_bytes, merged, packed, put, unpacked
from beliefs.options import check_option

__all__ = ["Cluster", "cluster"]

S = TypeVar("S")
T = TypeVar("T")

_LEAST_WORK = 2**15  # cells of a shard at least, so that small instances can be joined within it
_MOST_SHARDS = 1024
_KEPT = 4  # lists of instances, and jobs, that workers hold at a time
_MEMORY = 0.6  # of a worker's limit, above which dask begins to write to the disk
_COPIES = 3.0  # of a shard's bytes that it takes at its worker: packed, unpacked, and what losses keep
_GLANCE = 1.0  # seconds between two looks at who is there, while waiting
_PATIENCE = 60.0  # seconds without any worker
_ANSWER = 20.0  # seconds that the scheduler may take to say who is there


@dataclass(eq=False)
class _Spread:
    """A list of instances in shards: where each begins, and the worker that holds it."""

    items: tuple[Any, ...]
    starts: list[int]
    key: str
    bytes_an_item: float
    homes: dict[int, str] = field(default_factory=dict)
    numbers: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = {id(item): k for k, item in enumerate(self.items)}

    @property
    def n_shards(self) -> int:
        return len(self.starts) - 1

    def shard(self, number: int) -> list[Any]:
        return list(self.items[self.starts[number] : self.starts[number + 1]])

    def n_bytes(self, worker: str) -> float:
        """Return what the shards of a worker take there, each layout once."""
        items = [item for shard, home in self.homes.items() if home == worker for item in self.shard(shard)]
        return _COPIES * (self.bytes_an_item * len(items) + sum(layout_bytes(items).values()))

    def parts(self, items: Sequence[Any]) -> dict[int, tuple[int, ...]] | None:
        """Return of some items the shards and their numbers there; None if one is not among those held."""
        found: dict[int, list[int]] = {}
        for item in items:
            k = self.numbers.get(id(item))
            if k is None:
                return None
            shard = bisect_right(self.starts, k) - 1
            found.setdefault(shard, []).append(k - self.starts[shard])
        return {shard: tuple(found[shard]) for shard in sorted(found)}


@dataclass(eq=False)
class Cluster(Engine):
    """The workers of a dask client, as fits see them.

    Attributes
    ----------
    client : distributed.Client
    bytes_sent : int
        Data and losses sent to workers so far; weights and sums are not among them.
    n_sent : int
        Shards sent so far: those of the data once, and again what was lost or moved.
    """

    client: Any
    bytes_sent: int = 0
    n_sent: int = 0
    _spreads: list[_Spread] = field(default_factory=list, repr=False)
    _jobs: list[tuple[str, Any]] = field(default_factory=list, repr=False)
    _name: str = field(default_factory=lambda: uuid.uuid4().hex)
    _made: int = 0
    _workers: dict[str, int] = field(default_factory=dict, repr=False)
    _seen: float = -np.inf
    _lost: bool = False

    # -- data -----------------------------------------------------------------------------------------------------
    def hold(self, items: Sequence[Any], sizes: Sequence[int]) -> None:
        """Cut items into shards by their sizes; they are sent when they are first needed."""
        if not items or self._of(items) is not None:
            return
        n_shards = int(np.clip(sum(sizes) // _LEAST_WORK, 1, min(len(items), _MOST_SHARDS)))
        inner = np.searchsorted(np.cumsum(sizes), np.arange(1, n_shards) * (sum(sizes) / n_shards)) + 1
        starts = np.unique(np.concatenate([[0], inner, [len(items)]])).tolist()
        first = list(items[: starts[1]])
        own = len(packed(first)) - sum(layout_bytes(first).values())
        spread = _Spread(tuple(items), starts, f"{self._name}/data{self._made}/", max(own, 0) / len(first))
        self._check_memory(spread)
        self._made += 1
        for old in self._spreads[: 1 - _KEPT]:
            self._everywhere(drop, old.key)
        self._spreads = [*self._spreads[1 - _KEPT :], spread]

    def _of(self, items: Any) -> _Spread | None:
        """Return the list that all of these are from."""
        for spread in reversed(self._spreads):
            if len(items) <= len(spread.items) and all(id(item) in spread.numbers for item in items):
                return spread
        return None

    def total(self, job: Callable[[list[Any], dict[str, Any], Any], Any], argument: Any, items: Any) -> Any:
        """Return the sum over items, all or some of a list that is held; None if they are not."""
        if not isinstance(items, list | tuple) or not items:
            return None
        spread = self._of(items)
        if spread is None:
            return None
        whole = len(items) == len(spread.items) and all(a is b for a, b in zip(items, spread.items, strict=True))
        chosen = None if whole else spread.parts(items)
        shards = list(range(spread.n_shards)) if chosen is None else list(chosen)
        return self._sum(spread, self._job(job), argument, shards, chosen)

    def _job(self, job: Any) -> str:
        """Return the key of a job; that of an object's method is the same as long as the object is."""
        for key, known in self._jobs:
            if known == job:
                return key
        key = f"{self._name}/job{self._made}/"
        self._made += 1
        for old, _ in self._jobs[: 1 - _KEPT]:
            self._everywhere(drop, old)
        self._jobs = [*self._jobs[1 - _KEPT :], (key, job)]
        return key

    # -- sums -----------------------------------------------------------------------------------------------------
    def _sum(self, spread: _Spread, job: str, argument: Any, shards: list[int], chosen: Any) -> Any:
        leaf = {shard: k for k, shard in enumerate(shards)}
        waiting, found = set(shards), dict[tuple[int, int], Any]()
        while waiting:
            self._settle(spread)
            asked = []
            for worker in sorted({spread.homes[shard] for shard in waiting}):
                own = sorted(shard for shard in waiting if spread.homes[shard] == worker)
                request = Request(
                    job,
                    argument,
                    len(shards),
                    tuple(leaf[shard] for shard in own),
                    tuple(f"{spread.key}{shard}" for shard in own),
                    None if chosen is None else tuple(chosen[shard] for shard in own),
                )
                asked.append((worker, own, self._submit(worker, evaluate, request, self._workers[worker])))
            for worker, own, future in asked:
                answer = self._result(worker, future)
                if isinstance(answer, Missing):
                    self._send(worker, spread, answer.keys)
                elif answer is not None:
                    found |= answer
                    waiting -= set(own)
        (total,) = merged(found, len(shards)).values()
        return total

    def _send(self, worker: str, spread: _Spread, keys: Sequence[str]) -> None:
        """Send shards and jobs that a worker does not hold, one after the other: few are in memory twice."""
        jobs = dict(self._jobs)
        for key in keys:
            is_shard = key not in jobs
            data = packed(spread.shard(int(key.removeprefix(spread.key))) if is_shard else jobs[key])
            try:
                sent = self.client.scatter(data, workers=[worker], hash=False)
            except (OSError, TimeoutError, ValueError):  # it is gone: the next look says so
                self._look()
                return
            if self._result(worker, self._submit(worker, put, key, sent, is_shard)) is None:
                return
            self.bytes_sent += len(data)
            self.n_sent += is_shard

    # -- workers --------------------------------------------------------------------------------------------------
    def _submit(self, worker: str, task: Callable[..., Any], *arguments: Any) -> Any:
        return self.client.submit(task, *arguments, workers=[worker], allow_other_workers=False, pure=False, retries=0)

    def _result(self, worker: str, future: Any) -> Any:
        """Return what a worker answers; None if it is lost. What the task raises is raised here."""
        from concurrent.futures import CancelledError

        from distributed import KilledWorker

        try:
            while True:
                try:
                    return future.result(timeout=_GLANCE)
                except TimeoutError:
                    if future.done():  # in the meantime, or the task's own
                        return future.result()
                    if worker not in self._look():
                        future.cancel(force=True)
                        return None
        except (CancelledError, KilledWorker):
            self._look()
            return None

    def _look(self) -> dict[str, int]:
        """Return the threads of each worker by its address, as the scheduler knows them now."""
        began = time.monotonic()
        while True:
            try:
                if self.client.status != "running":
                    raise OSError(f"the client is {self.client.status}")
                found = self.client.sync(self.client.scheduler.ncores, callback_timeout=_ANSWER)
                self._workers = {str(worker): int(n) for worker, n in found.items()}
            except (OSError, TimeoutError, RuntimeError) as error:
                self._lost = True
                raise BeliefsError(
                    f"the scheduler of the cluster does not answer ({error}); a fit with a checkpoint goes on from it "
                    "when it is started again"
                ) from None
            if self._workers:
                self._seen = time.monotonic()
                return self._workers
            if time.monotonic() - began > _PATIENCE:
                raise BeliefsError(f"the cluster has had no worker for {_PATIENCE:.0f} s; start some and fit again")
            time.sleep(0.1)

    def _settle(self, spread: _Spread) -> None:
        """Give every shard a worker that is there: as few move as can be, and none has much more than another."""
        if time.monotonic() - self._seen > _GLANCE or not spread.homes:
            self._look()
        workers = sorted(self._workers)
        held: dict[str, list[int]] = {worker: [] for worker in workers}
        for shard in range(spread.n_shards):
            home = spread.homes.get(shard)
            if home in held:
                held[home].append(shard)
        if not spread.homes:  # neighbours together: their sums meet at their worker
            ends = np.cumsum([self._workers[worker] for worker in workers])
            cuts = [0, *(spread.n_shards * ends // ends[-1]).tolist()]
            held = {worker: list(range(cuts[k], cuts[k + 1])) for k, worker in enumerate(workers)}
        lost = sorted(set(range(spread.n_shards)) - {shard for own in held.values() for shard in own})
        for shard in lost:
            held[self._least(held)].append(shard)
        while True:
            least = self._least(held)
            most = max(workers, key=lambda worker: (len(held[worker]) / self._workers[worker], worker))
            if (len(held[least]) + 1) / self._workers[least] >= len(held[most]) / self._workers[most]:
                break
            held[least].append(held[most].pop())
        spread.homes = {shard: worker for worker in workers for shard in held[worker]}

    def _least(self, held: dict[str, list[int]]) -> str:
        return min(held, key=lambda worker: (len(held[worker]) / self._workers[worker], worker))

    def _check_memory(self, spread: _Spread) -> None:
        """Raise BudgetError if a worker cannot hold its share of the data, by prediction."""
        self._settle(spread)
        known = self.client.scheduler_info(n_workers=-1)["workers"]
        limits = {w: _MEMORY * float(facts["memory_limit"]) for w, facts in known.items() if facts.get("memory_limit")}
        needed = {worker: spread.n_bytes(worker) for worker in self._workers}
        tight = max(needed, key=lambda worker: needed[worker] / limits.get(worker, np.inf))
        if needed[tight] > limits.get(tight, np.inf):
            demand, advice = f"the share of {tight} in the instances needs", "Add workers, or memory"
            raise over_budget(demand, needed[tight], limits[tight], advice, " there")

    def _everywhere(self, task: Callable[..., Any], *arguments: Any) -> None:
        """Run a task on every worker, as far as they answer."""
        try:
            futures = [(worker, self._submit(worker, task, *arguments)) for worker in self._look()]
            for worker, future in futures:
                self._result(worker, future)
        except (BeliefsError, OSError, TimeoutError):
            return

    def close(self) -> None:
        """Let workers forget what they hold."""
        if (self._spreads or self._jobs) and not self._lost:
            self._everywhere(drop, f"{self._name}/")
        self._spreads, self._jobs = [], []

    def map(self, task: Callable[[S], T], entries: Iterable[S]) -> list[T]:
        """Return the answers for entries in their order: each is a task of its own, which is run again if it is lost.

        For questions about many models (``map(bl.infer, models)``), or the cells of an experiment.
        """
        futures = [self.client.submit(_apply, packed((task, entry)), pure=False) for entry in entries]
        return [unpacked(data) for data in self.client.gather(futures)]


def _apply(data: bytes) -> bytes:
    task, entry = unpacked(data)
    return packed(task(entry))


@contextmanager
def cluster(client: Any) -> Iterator[Cluster]:
    """Within, fits leave their data with the workers of a cluster, and sums over instances are taken there.

    Parameters
    ----------
    client : distributed.Client or str
        Connected to the scheduler, or its address.
    """
    try:
        from distributed import Client
    except ImportError:
        raise BeliefsError("a cluster needs dask: pip install 'beliefs[cluster]'") from None

    check_option(isinstance(client, Client | str), "client", "a distributed.Client or an address", client)
    try:
        connected = Client(client, set_as_default=False) if isinstance(client, str) else client
    except (OSError, ValueError) as error:
        raise BeliefsError(f"there is no scheduler at {client!r} ({' '.join(str(error).split())[:100]})") from None
    engine = Cluster(connected)
    try:
        with engaged(engine):
            yield engine
    finally:
        engine.close()
        if connected is not client:
            connected.close()
