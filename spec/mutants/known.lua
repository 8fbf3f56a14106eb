-- Known mutants: bugs that etcdlock has had, or that would break a safety rule. Each is a small
-- patch, and names what must notice it.
--
--   name    the bug
--   file    the file that is patched
--   from    text that occurs once in the file
--   to      the text in its place
--   regression   the number of the regression whose bug it is; nil: it never was in etcdlock
--   simulator    true: noticed by the simulator, within |histories| (nil: 2,500)
--   spec         noticed by this spec
--   gone    instead of all but |regression|: why no small patch can bring the bug back
--   model   noticed by the model of the lease, run with these options (spec/model/lease_model.c)
--   from_schedule   the seed of the first schedule; nil: 1
return {
  {
    name = "a sight of any raft term proves a renewal",
    file = "src/protocol/lease_proof.c",
    from = "sight->term == renewal->term &&",
    to = "true &&",
    model = "",
  },
  {
    name = "the sight of another member proves a renewal",
    file = "src/protocol/lease_proof.c",
    from = "sight->member == renewal->member &&",
    to = "true &&",
    model = "versions=vulnerable members=5 snapshots=1 bump=100",
    from_schedule = 1300000,
  },
  {
    name = "a sight proves a renewal although the member may have got a snapshot",
    file = "src/protocol/lease_proof.c",
    from = "sight->rev - renewal->rev < SNAPSHOT_REVS",
    to = "true",
    model = "snapshots=1 bump=100",
  },
  {
    name = "a sight that was sent before the keepalive proves it",
    file = "src/protocol/lease_proof.c",
    from = "? renewal->sent_ms : renewal->answered_ms;",
    to = "? INT64_MIN : renewal->answered_ms;",
    model = "",
  },
  {
    name = "the hold deadline counts from the answer to the keepalive",
    file = "src/protocol/lease_proof.c",
    from = "return renewal->sent_ms + renewal->ttl_ms - margin;",
    to = "return renewal->answered_ms + renewal->ttl_ms - margin;",
    model = "",
  },
  {
    name = "the hold deadline has no margin",
    file = "src/protocol/lease_proof.c",
    from = "return renewal->sent_ms + renewal->ttl_ms - margin;",
    to = "return renewal->sent_ms + renewal->ttl_ms;",
    model = "clocks=1",
  },
  {
    name = "a lease that may have expired is proven by a sight sent before the keepalive's answer",
    file = "src/protocol/lease_proof.c",
    from = "now_ms < proof->alive_until ? renewal->sent_ms : renewal->answered_ms;",
    to = "now_ms < 0 && proof == NULL ? 0 : renewal->sent_ms;",
    model = "",
  },
  {
    name = "a client that is closed during a lock delay forgets a put of unknown outcome",
    regression = 245,
    file = "src/protocol/entry.c",
    from = "if (entry->rev != 0 || may_exist) {",
    to = "if (entry->rev != 0 || (may_exist && false)) {",
    spec = "spec/lock/lock_delay_spec.lua",
  },
  {
    name = "user data with the name of the client's key counts as an answer without leases",
    regression = 244,
    file = "src/protocol/lock_txn.c",
    from = "el_bytes_are_equal(own->kvs[0].value, puts[i].value)",
    to = "true",
    spec = "spec/lock/user_data_spec.lua",
  },
}
