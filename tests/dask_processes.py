"""A dask cluster whose scheduler and workers are processes of their own, which tests may kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from distributed import Client

Process = subprocess.Popen[bytes]


class Processes:
    """A scheduler on the loopback, and workers of one thread."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.workers = folder, list[Process]()
        file = folder / "scheduler.json"
        self.scheduler = self._start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)
        )
        began = time.monotonic()
        while not file.exists() or not file.read_text().endswith("}"):
            assert self.scheduler.poll() is None and time.monotonic() - began < 60, "the scheduler has not started"
            time.sleep(0.05)
        self.address = json.loads(file.read_text())["address"]
        self.client = Client(self.address, timeout=10, set_as_default=False)

    def _start(self, program: str, *arguments: str) -> Process:
        command = [sys.executable, "-W", "ignore", "-m", f"distributed.cli.{program}", *arguments]
        log = open(self.folder / f"{program}-{time.monotonic_ns()}.log", "wb")
        with log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env={**os.environ})

    def add_worker(self) -> Process:
        """Start a worker and wait until the scheduler knows it."""
        known = len(self.client.nthreads())
        worker = self._start(
            "dask_worker", self.address, "--no-nanny", "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1",
            "--memory-limit", "2GB", "--local-directory", str(self.folder),
        )  # fmt: skip
        self.workers.append(worker)
        self.client.wait_for_workers(known + 1, timeout=120)
        return worker

    def have(self, n: int) -> None:
        """Start or end workers until there are ``n``, and the scheduler knows."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        while len(self.workers) > n:
            self.kill(self.workers.pop())
        while len(self.client.nthreads()) > len(self.workers):
            time.sleep(0.05)
        while len(self.workers) < n:
            self.add_worker()

    def kill(self, process: Process) -> None:
        """End a process without letting it say anything."""
        process.kill()
        process.wait()

    def close(self) -> None:
        """End everything."""
        self.client.close(timeout=5)
        for process in [*self.workers, self.scheduler]:
            self.kill(process)
