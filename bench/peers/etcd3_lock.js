// The entrant etcd3 of node. bench/README.md describes the messages that an entrant reads and
// prints. The lock of etcd3 does not wait: a client that finds the lock taken tries again after
// RETRY_MS.

const fs = require('fs');
const readline = require('readline');
const { setTimeout: sleep } = require('timers/promises');
const { Etcd3, EtcdLockFailedError } = require('etcd3');

const RETRY_MS = 10;

const now = () => Number(process.hrtime.bigint()) / 1e9;

// A witness counts how often two owners hold the same lock at once. A flag detects this within one
// process. Between processes, a file detects it: only one process can create the file of a lock.
class Witness {
  constructor(marks) {
    this.marks = marks;
    this.inside = new Set();
    this.broken = 0;
  }

  create(number) {
    try {
      fs.closeSync(fs.openSync(`${this.marks}/${number}`, 'wx', 0o600));
      return true;
    } catch {
      return false;
    }
  }

  enter(number) {
    if (this.inside.has(number) || (this.marks && !this.create(number))) this.broken++;
    this.inside.add(number);
  }

  leave(number) {
    if (this.marks) fs.rmSync(`${this.marks}/${number}`, { force: true });
    this.inside.delete(number);
  }
}

// A window counts complete pairs. It ends after so many seconds, or after so many holds of each
// owner.
class Window {
  constructor({ seconds = Infinity, holds = Infinity }) {
    this.from = now();
    this.deadline = this.from + seconds;
    this.holds = holds;
    this.pairs = 0;
    this.last = 0;
  }

  isOver() {
    return now() >= this.deadline;
  }

  // Counts a complete pair. A pair that ended after the deadline does not count.
  count() {
    const at = now();
    if (at >= this.deadline) return;
    this.pairs++;
    this.last = at - this.from;
  }
}

async function acquire(client, name) {
  for (;;) {
    try {
      return await client.lock(name).acquire();
    } catch (error) {
      if (!(error instanceof EtcdLockFailedError)) throw error;
      await sleep(RETRY_MS);
    }
  }
}

async function runOwner(client, job, number, window, witness) {
  for (let done = 0; done < window.holds && !window.isOver(); done++) {
    const lock = await acquire(client, `${job.prefix}/${number}`);
    if (!window.isOver()) {
      witness.enter(number);
      if (job.hold > 0) await sleep(job.hold * 1000);
      witness.leave(number);
    }
    await lock.release();
    window.count();
  }
}

async function runWindow(client, job, witness, command) {
  const window = new Window(command);
  const owners = [];
  for (let i = 0; i < job.owners; i++) {
    owners.push(runOwner(client, job, i % job.names, window, witness));
  }
  await Promise.all(owners);
  return { pairs: window.pairs, seconds: window.last, broken: witness.broken };
}

async function main() {
  const job = JSON.parse(process.argv[2]);
  const client = new Etcd3({ hosts: job.endpoint });
  await client.get('first');
  const witness = new Witness(job.marks);
  console.log(`ready node etcd3 ${require('etcd3/package.json').version}, node ${process.version}`);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await runWindow(client, job, witness, JSON.parse(line))));
  }
  client.close();
}

main();
