"""The entrant python-etcd3. bench/README.md describes the messages that an entrant reads and
prints."""

import contextlib
import importlib.metadata
import itertools
import json
import math
import os
import platform
import sys
import threading
import time

import etcd3

# Seconds. Each hold leaves a lease behind. The leases must not expire while other entrants are
# measured, because etcd needs time to revoke expired leases.
TTL = 600


class Witness:
    """Counts how often two owners hold the same lock at once. A flag detects this within one
    process. Between processes, a file detects it: only one process can create the file of a
    lock."""

    def __init__(self, marks, names):
        self.marks = marks
        self.inside = [threading.Lock() for _ in range(names)]
        self.broken = 0

    def create(self, number):
        try:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
            os.close(os.open(f"{self.marks}/{number}", flags, 0o600))
            return True
        except FileExistsError:
            return False

    def enter(self, number):
        alone = self.inside[number].acquire(blocking=False)
        if not alone or self.marks and not self.create(number):
            self.broken += 1

    def leave(self, number):
        if self.marks:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.marks}/{number}")
        self.inside[number].release()


class Window:
    """Counts complete pairs. The command has the length of the window in seconds, or the number of
    holds of each owner."""

    def __init__(self, command):
        self.begin = time.monotonic()
        self.deadline = self.begin + command.get("seconds", math.inf)
        self.holds = command.get("holds", math.inf)
        self.pairs = 0
        self.last = 0
        self.lock = threading.Lock()

    def is_over(self):
        return time.monotonic() >= self.deadline

    def count(self):
        """Counts a complete pair. A pair that ended after the deadline does not count."""
        with self.lock:
            at = time.monotonic()
            if at < self.deadline:
                self.pairs += 1
                self.last = at - self.begin

    def run_owner(self, job, number, lock, witness):
        for done in itertools.count():
            if done >= self.holds or self.is_over():
                return
            lock.acquire(timeout=None)
            if not self.is_over():
                witness.enter(number)
                if job["hold"]:
                    time.sleep(job["hold"])
                witness.leave(number)
            lock.release()
            self.count()


def run_window(job, locks, witness, command):
    window = Window(command)
    owners = [
        threading.Thread(target=window.run_owner, args=(job, i % job["names"], lock, witness))
        for i, lock in enumerate(locks)
    ]
    for owner in owners:
        owner.start()
    for owner in owners:
        owner.join()
    return {"pairs": window.pairs, "seconds": window.last, "broken": witness.broken}


def main():
    job = json.loads(sys.argv[1])
    host, port = job["endpoint"].removeprefix("http://").split(":")
    client = etcd3.client(host=host, port=int(port))
    client.get("first")
    names = [f"{job['prefix']}/{i % job['names']}" for i in range(job["owners"])]
    locks = [client.lock(name, ttl=TTL) for name in names]
    witness = Witness(job.get("marks"), job["names"])
    version = importlib.metadata.version("etcd3")
    print(f"ready python-etcd3 {version}, Python {platform.python_version()}", flush=True)
    for line in sys.stdin:
        print(json.dumps(run_window(job, locks, witness, json.loads(line))), flush=True)


main()
