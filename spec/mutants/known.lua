-- Known mutants: bugs that etcdlock has had, or that would break a safety rule. Each is a small
-- patch, and names what must notice it: |spec|, |simulator| or |model|. `make known-mutants` prints
-- MISSED if that does not notice it.
--
--   name    the bug
--   file    the file that is patched
--   from    text that occurs once in the file
--   to      the text in its place
--   regression   the number of the regression whose bug it is; nil: it never was in etcdlock
--   spec         noticed by this spec
--   simulator    true: noticed by the simulator
--   histories    how many histories the simulator runs for it; nil: 2,500
--   model        noticed by the model of the lease, run with these options ("": the defaults of
--                spec/model/lease_model.c). |file| is src/protocol/lease_proof.c. `make model` runs
--                it, not `make known-mutants`
--   from_schedule   the seed of the model's first schedule; nil: 1
--
-- The bug of a regression that no small patch can bring back has two fields only: |regression|, and
-- |gone|, which says why.
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
    from = "return renewal->sent_ms + el_lease_proof_hold_ms(",
    to = "return renewal->answered_ms + el_lease_proof_hold_ms(",
    model = "",
  },
  {
    name = "the hold deadline has no margin",
    file = "src/protocol/lease_proof.c",
    from = "return ttl_ms - margin;",
    to = "return ttl_ms - 0 * margin;",
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
    regression = 1,
    gone = "the second call gets an entry of its own, and does not see the one that is released",
  },
  {
    name = "gRPC retries the calls of a client",
    regression = 2,
    file = "src/net/channel.c",
    from = "INT_ARG(GRPC_ARG_ENABLE_RETRIES, 0),",
    to = "INT_ARG(GRPC_ARG_ENABLE_RETRIES, 1),",
    spec = "spec/tls/restart_spec.lua",
  },
  {
    name = "a failed token request counts as an answer of etcd",
    regression = 3,
    file = "src/etcd/auth.c",
    from = "if (err->code != EL_UNAVAILABLE) auth->was_answered = true;",
    to = "auth->was_answered = true;",
    spec = "spec/cluster/outage_spec.lua",
  },
  {
    name = "a closed wake-up connection that a child inherited is still polled",
    regression = 4,
    file = "src/nginx/wake_server.c",
    from = [[  epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
]],
    to = "",
    spec = "spec/nginx/descriptors_spec.lua",
  },
  {
    name = "a lock that was granted during an impossible wait goes to the nginx request",
    regression = 5,
    file = "lua/etcdlock/wait/init.lua",
    from = "if a == nil or a and wait.give_up then",
    to = "if a == nil then",
    spec = "spec/nginx/descriptors_spec.lua",
  },
  {
    name = "a call that must wait in an event loop raises an error if there is no free descriptor",
    regression = 6,
    file = "lua/etcdlock/wait/loop.lua",
    from = "return is_pending, fd -- message, code",
    to = "error(is_pending, 0)",
    spec = "spec/event_loop/async_spec.lua",
  },
  {
    name = "two nginx requests with the same owner share a hold that has no connection",
    regression = 7,
    file = "lua/etcdlock/wait/nginx.lua",
    from = "return binding ~= nil and binding.scope ~= nil and binding.scope == find_scope()",
    to = "return binding ~= nil",
    spec = "spec/nginx/owners_spec.lua",
  },
  {
    name = "a watcher of the client's descriptor keeps a dropped event loop from being collected",
    regression = 8,
    file = "lua/etcdlock/wait/waits.lua",
    from = [[_watchers = setmetatable({}, { __mode = "k" }),]],
    to = "_watchers = {},",
    spec = "spec/event_loop/async_spec.lua",
  },
  {
    name = "a step of a pending lock consumes the wakeup of another pending lock",
    regression = 9,
    file = "lua/etcdlock/pending.lua",
    from = "unpoll(self.wakeups:fd())",
    to = "",
    spec = "spec/event_loop/async_spec.lua",
  },
  {
    name = "each unlock of a lock with an on_lost function leaves an entry in a table",
    regression = 10,
    file = "lua/etcdlock/loss_listeners.lua",
    from = "self._wakeups:forget(lock._loss_number)",
    to = "",
    spec = "spec/event_loop/async_spec.lua",
  },
  {
    name = "a call with the owner \"main\" shares the holds of the main coroutine",
    regression = 11,
    file = "lua/etcdlock/held_locks.lua",
    from = "local MAIN = {}",
    to = [[local MAIN = "main"]],
    spec = "spec/lock/reentrancy_spec.lua",
  },
  {
    name = "a channel is destroyed while it may be connecting",
    regression = 12,
    file = "src/net/channel.c",
    from = "if (may_be_connecting(closing)) return false;",
    to = "if (may_be_connecting(closing) && false) return false;",
    spec = "spec/process/close_descriptors_spec.lua",
  },
  {
    name = "the loss of a lease during a release counts as the success of the release",
    regression = 13,
    file = "src/protocol/entry.c",
    from = "entry->has_lease_ended_early = end == EL_SESSION_END_EARLY;",
    to = [[entry->state = EL_ENTRY_ENDED;
    push(out, EL_ENTRY_REPORT_RELEASED)->is_found = true;]],
    spec = "spec/cluster/wipe_spec.lua",
  },
  {
    name = "a write does not know that an earlier write may still be applied",
    regression = 14,
    file = "src/protocol/write_order.c",
    from = "if (!failed->is_definite) order->is_in_doubt = true;",
    to = "",
    spec = "spec/lock/late_writes_spec.lua",
  },
  {
    name = "a client looks for the key of a late enqueue for some seconds only",
    regression = 15,
    file = "src/protocol/session.c",
    from = "session->audit_at = now_ms + session->audit_interval_ms;",
    to = [[session->audit_at = session->audit_interval_ms < AUDIT_MAX_MS
                            ? now_ms + session->audit_interval_ms
                            : 0;]],
    spec = "spec/lock/unanswered_requests_spec.lua",
  },
  {
    name = "a try that has seen two sets of keys that do not block it fails, instead of queueing",
    regression = 16,
    file = "src/protocol/entry.c",
    from = [[  } else {
    entry->state = EL_ENTRY_ENQUEUING;
    send(entry, out, EL_REQUEST_ENQUEUE);
  }
}

/* Tells whether |read|]],
    to = [[  } else {
    fail_wait(entry, EL_ENTRY_REPORT_LOCKED, out);
  }
}

/* Tells whether |read|]],
    simulator = true,
  },
  {
    name = "a leaked lock is not reported",
    regression = 17,
    file = "src/lua/lock.c",
    from = "if (lk != NULL && el_lock_drop(lk)) {",
    to = "if (lk != NULL && el_lock_drop(lk) && false) {",
    spec = "spec/lock/leaked_locks_spec.lua",
  },
  {
    name = "connect starts gRPC without enough free descriptors",
    regression = 18,
    file = "src/net/loop.c",
    from = "GRPC_DESCRIPTORS = 8,",
    to = "GRPC_DESCRIPTORS = 0,",
    spec = "spec/process/limits_spec.lua",
  },
  {
    name = "connect does not check whether threads can be started",
    regression = 18,
    file = "src/base/process.c",
    from = "has_threads(n_threads, err);",
    to = "(n_threads < 0 || has_threads(0, err));",
    spec = "spec/process/limits_spec.lua",
  },
  {
    name = "a lease call that succeeds does not clear the last error of the session",
    regression = 19,
    file = "src/lock/session_driver.c",
    from = [[  driver->last_error = *err;
]],
    to = [[  if (err->code != EL_OK) driver->last_error = *err;
]],
    spec = "spec/errors/causes_spec.lua",
  },
  {
    name = "the message of a loss does not tell that the process was stopped",
    regression = 20,
    file = "src/lock/shared.c",
    from = "if (due_ms == 0 || late_ms < EL_STANDSTILL_MS) return false;",
    to = "if (late_ms < INT64_MAX) return false;",
    spec = "spec/errors/causes_spec.lua",
  },
  {
    name = "unlock fails in log_by_lua, after nginx has closed the connection of the lock",
    regression = 21,
    file = "lua/etcdlock/wait/nginx.lua",
    from = "if connection and not connection.socket:getreusedtimes() then",
    to = "if false then",
    spec = "spec/nginx/phase_limits_spec.lua",
  },
  {
    name = "the wait of a timer without a limit goes on when its nginx worker exits",
    regression = 22,
    file = "lua/etcdlock/wait/nginx.lua",
    from = [[if not wait.ends_early or ngx.get_phase() ~= "timer" then]],
    to = "if true then",
    spec = "spec/nginx/ended_waits_spec.lua",
  },
  {
    name = "each try where nginx cannot wait blocks the worker although etcd is silent",
    regression = 23,
    file = "lua/etcdlock/acquire.lua",
    from = "if not message and (lock._stops_loop or client._fail_fast) then",
    to = "if not message and client._fail_fast then",
    spec = "spec/nginx/phase_limits_spec.lua",
  },
  {
    name = "a try where nginx cannot wait blocks the worker for 2 s",
    regression = 23,
    file = "lua/etcdlock/acquire.lua",
    from = "if not lock._stops_loop then",
    to = "if lock then",
    spec = "spec/nginx/phase_limits_spec.lua",
  },
  {
    name = "resty.etcdlock refuses a free lock where nginx cannot wait",
    regression = 24,
    file = "lua/resty/etcdlock.lua",
    from = [[if code == "context" then
    -- This]],
    to = [[if false then
    -- This]],
    spec = "spec/nginx/phase_limits_spec.lua",
  },
  {
    name = "resty.etcdlock counts the time of the first connection as a wait for a holder",
    regression = 24,
    file = "lua/resty/etcdlock.lua",
    from = "if not used[client] and self.timeout > 0 then",
    to = "if false then",
    spec = "spec/nginx/phase_limits_spec.lua",
  },
  {
    name = "resty.etcdlock returns a message of its own in an outage",
    regression = 25,
    file = "lua/resty/etcdlock.lua",
    from = [[return nil, "timeout", reason]],
    to = "return nil, reason",
    spec = "spec/nginx/resty_spec.lua",
  },
  {
    name = "a lock stays held after nginx has ended the function of its with_lock",
    regression = 26,
    file = "lua/etcdlock/held_locks.lua",
    from = "elseif lock._run and lock._count == 1 and runtime.is_cut_off(lock) then",
    to = "elseif false then",
    spec = "spec/nginx/with_lock_spec.lua",
  },
  {
    name = "resty.etcdlock does not share the default client",
    regression = 27,
    file = "lua/resty/etcdlock.lua",
    from = "_get_client = etcdlock._default_client }",
    to = "_get_client = etcdlock._connect_on_first_use() }",
    spec = "spec/nginx/default_client_spec.lua",
  },
  {
    -- The spec takes 5 min: five of its tests fail only at their timeouts of 60 s.
    name = "with fail_fast, a call that waits when etcd becomes unreachable goes on",
    regression = 28,
    file = "src/lock/client.c",
    from = "if (cl->failed_ms != 0 && shared->fail_fast) {",
    to = "if (false && shared->fail_fast) {",
    spec = "spec/cluster/fail_fast_spec.lua",
  },
  {
    name = "the message about too few nginx connections names descriptors",
    regression = 29,
    file = "lua/etcdlock/wait/nginx.lua",
    from = [[local is_full = next_fd < 0 or err:find("too many open files", 1, true)]],
    to = "local is_full = true",
    spec = "spec/nginx/descriptors_spec.lua",
  },
  {
    name = "the hold deadline of a long lease is only 2 s before the end of the lease",
    regression = 30,
    file = "src/base/times.h",
    from = "EL_MARGIN_MOST_MS = 4000,",
    to = "EL_MARGIN_MOST_MS = 2000,",
    spec = "spec/lock/lock_spec.lua",
  },
  {
    name = "the requests of waits that were cancelled in an outage leave without pauses",
    regression = 32,
    file = "src/lock/contact.c",
    from = "el_pause_ms(contact->n_failed, contact->salt, now_ms)",
    to = "1",
    spec = "spec/cluster/retry_rate_spec.lua",
  },
  {
    name = "a grant makes a lock look held that was released while it was pending",
    regression = 33,
    file = "src/lock/lock.c",
    from = "atomic_compare_exchange_strong(&lk->state, &pending, EL_HOLD_HELD);",
    to = "atomic_store(&lk->state, EL_HOLD_HELD), (void)pending;",
    spec = "spec/lock/contention_spec.lua",
  },
  {
    name = "each call for a lock that its program holds runs a full garbage collection",
    regression = 34,
    file = "lua/etcdlock/held_locks.lua",
    from = "wanted._must_share = wanted._mode",
    to = [[collectgarbage()
  wanted._must_share = wanted._mode]],
    spec = "spec/lock/leaked_locks_spec.lua",
  },
  {
    name = "each multi-lock puts keys with new names",
    regression = 35,
    file = "src/lock/local_queue_driver.c",
    from = [[uint32_t i = 0;
  while (i < slots->n]],
    to = [[uint32_t i = slots->n;
  while (i < slots->n]],
    spec = "spec/multi_lock/hold_spec.lua",
  },
  {
    name = "a request that may have been sent counts as not applied if a retry is useless",
    regression = 36,
    file = "src/net/channel.c",
    from = "err->is_definite = is_unsent && !err->is_retriable;",
    to = "err->is_definite = !err->is_retriable;",
    spec = "spec/cluster/late_delete_spec.lua",
  },
  {
    name = "the name of the marker key lies on the stack of a function that has returned",
    regression = 37,
    file = "src/protocol/lock_txn.c",
    from = [[bool is_own = !el_mode_has_markers(guard->keys->mode);
  to->then[0] = (el_op){.kind = EL_OP_PUT,
                        .key = order_key(guard, to->text),]],
    to = [[bool is_own = !el_mode_has_markers(guard->keys->mode);
  char text[EL_KEY_SIZE];
  to->then[0] = (el_op){.kind = EL_OP_PUT,
                        .key = order_key(guard, text),]],
    spec = "spec/lock/late_writes_spec.lua",
  },
  {
    name = "a key is kept for the next holder although a write of its holder may still be applied",
    regression = 38,
    file = "src/protocol/write_order.c",
    from = "return order->state != EL_WRITE_IDLE || order->is_in_doubt ? -1",
    to = "return false ? -1",
    spec = "spec/lock/late_writes_spec.lua",
  },
  {
    name = "threads that gRPC starts with its first channel do not block signals",
    regression = 39,
    file = "src/net/loop.c",
    from = [[  grpc_init();
  atomic_fetch_add(&n_loops, 1);]],
    to = [[  grpc_init();
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  atomic_fetch_add(&n_loops, 1);]],
    spec = "spec/process/signals_spec.lua",
  },
  {
    name = "a guarded write is given up like a request that can be repeated",
    regression = 40,
    file = "src/lock/guarded.c",
    from = "may_be_slow = guarded->writes && !guarded->shared->fail_fast;",
    to = "may_be_slow = false;",
    spec = "spec/cluster/unanswered_writes_spec.lua",
  },
  {
    name = "one lost answer is taken for an outage although etcd has answered later requests",
    regression = 41,
    file = "src/lock/request_queue.c",
    from = "(took_all && answer->sent_ms < queue->shared->contact.reached_ms)",
    to = "(false && took_all)",
    spec = "spec/cluster/unanswered_writes_spec.lua",
  },
  {
    name = "a call with a timeout waits for a lock that another client of its program holds",
    regression = 42,
    file = "lua/etcdlock/held_locks.lua",
    from = "if other ~= self and is_same_etcd(self, other)",
    to = "if other ~= self and not wanted._timeout and is_same_etcd(self, other)",
    spec = "spec/lock/deadlock_spec.lua",
  },
  {
    name = "with_lock does not tell that its function has run if the release fails",
    regression = 43,
    file = "lua/etcdlock/acquire.lua",
    from = "return nil, message, code, true, ...",
    to = "return nil, message, code",
    spec = "spec/lock/with_lock_errors_spec.lua",
  },
  {
    name = "a client that finds another cluster leaves its lease and its keys there",
    regression = 44,
    file = "src/lock/client.c",
    from = [[  el_session_driver_abandon(cl->session.driver);
]],
    to = "",
    spec = "spec/cluster/wipe_spec.lua",
  },
  {
    name = "wait_lost of a released lock waits for the end of the hold that took over its key",
    regression = 45,
    file = "lua/etcdlock/lock.lua",
    from = "self._client:_await(waits.Ended, loop, self._core, timeout)",
    to = [[self._client:_await(waits.Ended, loop,
    (self._client._held_locks._locks[self._full_name] or self)._core, timeout)]],
    spec = "spec/event_loop/cqueues_spec.lua",
  },
  {
    name = "expire of a released lock ends the hold that took over its lingering key",
    regression = 46,
    file = "lua/etcdlock/lock.lua",
    from = "if not self:_left() or not self._core:expire(seconds) then",
    to = [[local last = self._client._held_locks._locks[self._full_name] or self
  if not last._core:expire(seconds) then]],
    spec = "spec/lock/linger_spec.lua",
  },
  {
    name = "max_hold counts from the millisecond in which the hold begins",
    regression = 47,
    file = "src/lock/lock.c",
    from = "max_hold_ms > 0 ? now_us + max_hold_ms * 1000 : INT64_MAX",
    to = "max_hold_ms > 0 ? (now_us / 1000 + max_hold_ms) * 1000 : INT64_MAX",
    spec = "spec/lock/max_hold_spec.lua",
  },
  {
    name = "a released lock refers to the hold that took over its key, which is never collected",
    regression = 48,
    file = "lua/etcdlock/held_locks.lua",
    from = [[else
    self._locks[lock._full_name] = lock
  end]],
    to = [[else
    self._last = self._last or setmetatable({}, { __mode = "v" })
    local last = self._last[lock._full_name]
    if last then last._later = lock end
    self._last[lock._full_name], self._locks[lock._full_name] = lock, lock
  end]],
    spec = "spec/lock/linger_spec.lua",
  },
  {
    name = "a read that is answered during the hold of the next owner returns a value",
    regression = 49,
    file = "lua/etcdlock/guarded.lua",
    from = "if results and not self:_left() then",
    to = "if results and false then",
    spec = "spec/lock/guarded_calls_spec.lua",
  },
  {
    name = "a read that is answered after the end of its hold fails because its key is gone",
    regression = 50,
    file = "lua/etcdlock/guarded.lua",
    from = "elseif (ok or extra) and not self:_left() then",
    to = "elseif not ok and extra and not self:_left() then",
    spec = "spec/lock/guarded_calls_spec.lua",
  },
  {
    name = "a key lingers for the time of the hold that began to linger first",
    regression = 51,
    file = "src/lock/linger.c",
    from = [[if (at_ms != 0) {
    el_timers_set(timers, &linger->end, at_ms);
  } else {]],
    to = [[if (at_ms != 0 && linger->end.slot == 0) {
    el_timers_set(timers, &linger->end, at_ms);
  } else if (at_ms < 0) {]],
    spec = "spec/lock/linger_spec.lua",
  },
  {
    name = "the command loads modules from the current directory",
    regression = 52,
    file = "bin/etcdlock",
    from = [[package.path = absolute_entries(package.path)
]],
    to = "",
    spec = "spec/command/hostile_directory_spec.lua",
  },
  {
    name = "a token that is illegal in an HTTP header is sent",
    regression = 53,
    file = "src/etcd/auth.c",
    from = "  } else if (illegal_at != 0) {",
    to = "  } else if (false) {",
    spec = "spec/cluster/illegal_token_spec.lua",
  },
  {
    name = "a message of connect shows the password that was given with the user",
    regression = 54,
    file = "lua/etcdlock/check.lua",
    from = [[or field == "user" and value:find(":", 1, true)]],
    to = "",
    spec = "spec/errors/unsafe_text_spec.lua",
  },
  {
    name = "connect accepts a port with a sign or white space",
    regression = 55,
    file = "src/net/endpoint.c",
    from = [[if (len == 0 || len > 5 || strspn(text, "0123456789") != len) return false;]],
    to = "if (len == 0 || len > 5) return false;",
    spec = "spec/errors/endpoints_spec.lua",
  },
  {
    name = "numbers in texts for other programs have the decimal point of the locale",
    regression = 56,
    file = "lua/etcdlock/text.lua",
    from = [[return first and text:sub(1, first - 1) .. "." .. text:sub(last + 1) or text]],
    to = "return first and last and text or text",
    spec = "spec/observability/locale_spec.lua",
  },
  {
    name = "the message about an infinite max_hold states a condition that it meets",
    regression = 57,
    file = "lua/etcdlock/lock_options.lua",
    from = "more than 0 seconds and not inf; leave it out for a hold without end",
    to = "more than 0 seconds",
    spec = "spec/errors/misleading_messages_spec.lua",
  },
  {
    name = "a message or an event shows a newline of a name unchanged",
    regression = 58,
    file = "lua/etcdlock/text.lua",
    from = [[return M.replace(text, "^[\32-\126]+", escape_controls]],
    to = [[return M.replace(text, "^[\10\32-\126]+", escape_controls]],
    spec = "spec/observability/forged_lines_spec.lua",
  },
  {
    name = "the older permits of a semaphore are counted in 16 bits",
    regression = 59,
    file = "src/protocol/lock_txn.c",
    from = [[  uint32_t n_ahead;
} blockers;]],
    to = [[  uint16_t n_ahead;
} blockers;]],
    spec = "spec/semaphore/permits_spec.lua",
  },
  {
    name = "an answer with fewer responses than its request has operations is used",
    regression = 60,
    file = "src/etcd/kv.c",
    from = "message->n_responses != (then ?",
    to = "message->n_responses > (then ?",
    spec = "spec/errors/malformed_answers_spec.lua",
  },
  {
    name = "a watch that etcd has ended keeps its ID",
    regression = 61,
    file = "src/etcd/watch.c",
    from = [[  HASH_DEL(watches->by_id, watch);
  watch->id = 0;
  watch->is_created = false;
  watch->on_event]],
    to = [[  HASH_DEL(watches->by_id, watch);
  watch->on_event]],
    simulator = true,
  },
  {
    name = "a refusal of a watch without an ID ends the wait for the watch that was requested last",
    regression = 61,
    file = "src/etcd/watch.c",
    from = [[  watches->unanswered_id++;
  return id;]],
    to = [[  watches->unanswered_id++;
  return message->watch_id == NO_ID ? watches->last_id : id;]],
    spec = "spec/errors/watch_messages_spec.lua",
  },
  {
    name = "an error in an on_lost function keeps those of other lost locks from running",
    regression = 62,
    file = "lua/etcdlock/loss_listeners.lua",
    from = "is_failed, failure = true, err",
    to = "error(err, 0)",
    spec = "spec/lock/loss_spec.lua",
  },
  {
    name = "a try without an answer returns \"timeout\" if etcd has answered other requests",
    regression = 63,
    file = "src/lock/local_queue_driver.c",
    from = "!waiter->local.try_once && (is_held || has_answered(waiter, at) ||",
    to = "(is_held || has_answered(waiter, at) ||",
    spec = "spec/lock/unanswered_requests_spec.lua",
  },
  {
    name = "a try is \"locked\" beside an owner of its client that has no answer either",
    regression = 63,
    file = "src/lock/local_queue_driver.c",
    from = "if (doubt != NULL) {",
    to = "if (doubt != NULL && action == NULL) {",
    spec = "spec/lock/unanswered_requests_spec.lua",
  },
  {
    name = "the lease of a lost hold is revoked before the lock delay is over",
    regression = 64,
    file = "src/protocol/session.c",
    from = "if (now_ms < session->keep_lease_until) return false;",
    to = "if (now_ms < 0) return false;",
    simulator = true,
  },
  {
    name = "the compares of a request do not count for the limit of a batch",
    regression = 65,
    file = "src/etcd/batch.c",
    from = "size_t n = packed->n_compares;",
    to = "size_t n = 0;",
    spec = "spec/multi_lock/batch_spec.lua",
  },
  {
    name = "a lingering key of this client is not deleted for a wait in another mode",
    regression = 66,
    file = "src/lock/local_queue_driver.c",
    from = "visit_conflicting(waiter->queue, contend);",
    to = "if (waiter->timeout_ms < -1) visit_conflicting(waiter->queue, contend);",
    simulator = true,
  },
  {
    name = "a waiter takes over an entry whose cancelled try is in flight, and gets its result",
    regression = 67,
    file = "src/protocol/entry.c",
    from = "(entry->state == EL_ENTRY_IDLE || entry->state == EL_ENTRY_AUDITING);",
    to = [[(entry->state == EL_ENTRY_IDLE || entry->state == EL_ENTRY_AUDITING ||
          entry->in_flight == EL_REQUEST_TRY);]],
    simulator = true,
  },
  {
    name = "a lock that only lingers counts as held",
    regression = 68,
    file = "src/lock/local_queue_driver.c",
    from = "if (how != EL_LEAVE_LOST) EL_COUNT(counters_of(waiter->queue), held, -1);",
    to = [[if (how != EL_LEAVE_LOST && waiter->local.linger_ms == 0)
      EL_COUNT(counters_of(waiter->queue), held, -1);]],
    simulator = true,
  },
  {
    name = "a key counts as an entry although it is not attached to the lease in its name",
    regression = 69,
    file = "src/protocol/key.c",
    from = [[return el_key_parse(name.data, name.len, key.data, key.len, parsed) &&
         el_queue_key_is_attached(parsed, lease);]],
    to = [[(void)lease;
  return el_key_parse(name.data, name.len, key.data, key.len, parsed);]],
    simulator = true,
  },
  {
    name = "a channel that is about to be destroyed connects again",
    regression = 70,
    file = "src/net/channel.c",
    from = "if (!atomic_load(&mutator->blocks)) return true;",
    to = "if (fd != INT32_MIN) return true;",
    spec = "spec/process/close_descriptors_spec.lua",
  },
  {
    name = "connect starts gRPC although threads get stacks of 64 KiB",
    regression = 71,
    file = "src/base/process.c",
    from = "STACK_MIN_KIB = 256 ",
    to = "STACK_MIN_KIB = 1 ",
    spec = "spec/process/small_limits_spec.lua",
  },
  {
    name = "gRPC writes lines about a failed connection to standard error",
    regression = 72,
    file = "src/net/grpc_log.c",
    from = [[if (strstr(args->message, "assertion failed") != NULL) {]],
    to = [[if (args->message[0] != '\0') {]],
    spec = "spec/errors/endpoints_spec.lua",
  },
  {
    name = "an answer that is too large proves that etcd has not carried out the request",
    regression = 73,
    file = "src/base/error.c",
    from = [["message larger than max", EL_INVALID, TOO_LARGE,]],
    to = [["message larger than max", EL_INVALID, DEFINITE,]],
    spec = "spec/errors/large_answers_spec.lua",
  },
  {
    name = "the client uses a lease that is shorter than requested",
    regression = 74,
    file = "src/etcd/lease.c",
    from = "if (ttl_s >= requested_s) return true;",
    to = "if (ttl_s > 0) return true;",
    spec = "spec/errors/malformed_answers_spec.lua",
  },
  {
    name = "the system's text for an error is in the language of the program's locale",
    regression = 75,
    file = "src/base/text.c",
    from = [[  locale_t previous = el_c_locale_enter();
  const char *text]],
    to = [[  locale_t previous = uselocale((locale_t)0);
  const char *text]],
    spec = "spec/observability/locale_spec.lua",
  },
  {
    name = "lock:expire accepts math.huge",
    regression = 76,
    file = "lua/etcdlock/check.lua",
    from = "not (value > 0 and value < math.huge)",
    to = "not (value > 0)",
    spec = "spec/errors/odd_values_spec.lua",
  },
  {
    name = "make install accepts a PREFIX with &, which sed replaces",
    regression = 77,
    file = "Makefile",
    from = [[$(foreach c,& ; ']],
    to = [[$(foreach c,; ']],
    spec = "spec/packaging/prefix_spec.lua",
  },
  {
    name = "KILL after a loss comes later than the lock delay ends",
    regression = 78,
    file = "lua/etcdlock/command/run.lua",
    from = "args.lock_delay = args.lock_delay or args.grace",
    to = "args.lock_delay = args.lock_delay or 0",
    spec = "spec/command/run_loss_spec.lua",
  },
  {
    name = "only the command gets TERM after a loss, not the processes that it has started",
    regression = 79,
    file = "lua/etcdlock/command/child.lua",
    from = [[  self:_signal_group "sigterm"
]],
    to = [[  uv.kill(self._pid, "sigterm")
]],
    spec = "spec/command/run_processes_spec.lua",
  },
  {
    name = "TERM reaches the command twice",
    regression = 80,
    file = "lua/etcdlock/command/child.lua",
    from = [[  if signals.FOR_GROUP[name] then
    self:_signal_group(name)]],
    to = [[  if signals.FOR_GROUP[name] then
    uv.kill(self._pid, name)
    uv.sleep(50) -- the command handles the first one
    self:_signal_group(name)]],
    spec = "spec/command/run_processes_spec.lua",
  },
  {
    name = "orphans of the command stay zombies while the command runs",
    regression = 81,
    file = "lua/etcdlock/command/child.lua",
    from = [[
function Child.reap(child)
]],
    to = [[
function Child.reap(child)
  local file = child and io.open(("/proc/%d/stat"):format(child._pid))
  if file and not file:read "*a":find "%) [ZT]" then return end
]],
    spec = "spec/command/run_processes_spec.lua",
  },
  {
    name = "doctor finds no problem if a waiter gets the lock only after seconds",
    regression = 82,
    file = "lua/etcdlock/command/doctor.lua",
    from = "local WAIT_FIRST, WAKE_WAIT = 0.3, 3",
    to = "local WAIT_FIRST, WAKE_WAIT = 0.3, 30",
    spec = "spec/command/doctor_proxy_spec.lua",
  },
  {
    name = "a label of another client may contain names of any length",
    regression = 85,
    file = "lua/etcdlock/label.lua",
    from = "names.is_full_name(value) and value or nil",
    to = "value or nil",
    spec = "spec/lock/hostile_labels_spec.lua",
  },
  {
    name = "queue searches all keys for the marker key of each writer",
    regression = 86,
    file = "lua/etcdlock/queue.lua",
    from = "return leases[core.downgrade_marker(full_name, kv.create_revision)] == kv.lease",
    to = [[local marker = core.downgrade_marker(full_name, kv.create_revision)
  for key, lease in pairs(leases) do
    if key == marker then return lease == kv.lease end
  end
  return false]],
    spec = "spec/lock/queue_cost_spec.lua",
  },
  {
    name = "queues fails if etcd compacts the revision that it reads",
    regression = 87,
    file = "lua/etcdlock/snapshot.lua",
    from = [[failure == "compacted"]],
    to = [[failure == "none"]],
    spec = "spec/lock/queues_limits_spec.lua",
  },
  {
    name = "a write that cannot be sent before its hold is lost fails with \"not_held\"",
    regression = 88,
    file = "lua/etcdlock/guarded.lua",
    from = "elseif (ok or extra) and not self:_left() then",
    to = "elseif ok and not self:_left() then",
    spec = "spec/lock/guarded_calls_spec.lua",
  },
  {
    name = "a lease that has ended ends the holds of its client one after the other",
    regression = 89,
    file = "src/lock/session_driver.c",
    from = "el_hold_deadline_end(driver->hold_deadline, loss);",
    to = "if (loss == EL_LOSS_NONE) el_hold_deadline_end(driver->hold_deadline, loss);",
    spec = "spec/lock/lost_leases_spec.lua",
  },
  {
    name = "the second request of election:leader has a time limit of its own",
    regression = 90,
    file = "lua/etcdlock/election.lua",
    from = "read_keys(self, deadline, ALL_KEYS)",
    to = "read_keys(self, nil, ALL_KEYS)",
    spec = "spec/election/leader_limit_spec.lua",
  },
  {
    name = "the client takes the refusals of a corrupt cluster for an outage",
    regression = 91,
    file = "src/base/error.c",
    from = [[{GRPC_DATA_LOSS, "corrupt cluster", EL_UNAVAILABLE, DEFINITE,]],
    to = [[{GRPC_DATA_LOSS, "corrupt cluster", EL_UNAVAILABLE, RETRIABLE,]],
    spec = "spec/errors/odd_answers_spec.lua",
  },
  {
    name = "close of a client blocks the nginx worker",
    regression = 92,
    file = "lua/etcdlock/wait/nginx.lua",
    from = "core_client:begin_close(seconds)",
    to = "core_client:close(seconds)",
    spec = "spec/nginx/clients_spec.lua",
  },
  {
    name = "an idle nginx worker never collects the clients of aborted requests",
    regression = 92,
    file = "lua/etcdlock/wait/nginx.lua",
    from = "collector.record(core_client, find_scope())",
    to = "",
    spec = "spec/nginx/clients_spec.lua",
  },
  {
    name = "each lock that an nginx request holds has its own connection",
    regression = 93,
    file = "lua/etcdlock/wait/nginx.lua",
    from = "elseif shared ~= own then",
    to = "elseif false then",
    spec = "spec/nginx/waits_spec.lua",
  },
  {
    name = "two coroutines with one owner wait for one lock, each for the other",
    regression = 94,
    file = "lua/etcdlock/held_locks.lua",
    from = "if wait._core:wait(0) == nil and runtime.is_waiting(wait._binding) then",
    to = "if false then",
    spec = "spec/event_loop/two_waits_spec.lua",
  },
  {
    name = "a permit that was taken with another n counts as all permits",
    regression = 95,
    file = "src/protocol/lock_txn.c",
    from = "if (rev == 0 || blocker.rev < rev) found.n_ahead++;",
    to = [[if (rev == 0 || blocker.rev < rev)
        found.n_ahead += blocker.permits == keys->permits ? 1u : keys->permits;]],
    simulator = true,
  },
  {
    name = "the second call of an owner for a permit returns its first permit",
    regression = 96,
    file = "lua/etcdlock/held_locks.lua",
    from = [[release_cut_off(self, get_group("permit", wanted._full_name))]],
    to = [[for lock in pairs(self._sharers[get_group("permit", wanted._full_name)] or EMPTY) do
      if may_reenter(lock, wanted) then return lock end
    end]],
    spec = "spec/semaphore/permits_spec.lua",
  },
  {
    name = "a second lock of an nginx request returns the permit that the request holds",
    regression = 97,
    file = "lua/etcdlock/held_locks.lua",
    from = [[    return nil
  elseif not may_hold(self, wanted) then]],
    to = [[    for lock in pairs(self._sharers[get_group("permit", wanted._full_name)] or EMPTY) do
      if may_reenter(lock, wanted) then return lock end
    end
    return nil
  elseif not may_hold(self, wanted) then]],
    spec = "spec/nginx/owners_spec.lua",
  },
  {
    name = "a wait of another or an aborted nginx request counts as a wait of the same owner",
    regression = 98,
    file = "lua/etcdlock/held_locks.lua",
    from = "== nil and runtime.is_waiting(wait._binding) then",
    to = "== nil then",
    spec = "spec/nginx/waits_spec.lua",
  },
  {
    name = "a lock is tied to a connection from which another light thread reads",
    regression = 99,
    file = "lua/etcdlock/wait/nginx.lua",
    from = "or shared.is_being_read or",
    to = "or",
    spec = "spec/nginx/waits_spec.lua",
  },
  {
    name = "the lock is released when the command has ended, although its group goes on",
    regression = 100,
    file = "lua/etcdlock/command/run.lua",
    from = [[
      self._child:limit_group(self._args.grace)]],
    to = "",
    spec = "spec/command/run_processes_spec.lua",
  },
  {
    name = "the signals that are blocked at the start stay blocked",
    regression = 101,
    file = "lua/etcdlock/command/signals.lua",
    from = "core.unblock(numbers)",
    to = "core.unblock {}",
    spec = "spec/command/run_signals_spec.lua",
  },
  {
    name = "the command starts with no signal blocked",
    regression = 101,
    file = "src/base/child.c",
    from = "  pthread_sigmask(SIG_SETMASK, blocked, NULL);",
    to = [[
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, blocked != NULL ? &none : NULL, NULL);]],
    spec = "spec/command/run_signals_spec.lua",
  },
  {
    name = "a command that another process has stopped with STOP is continued",
    regression = 102,
    file = "lua/etcdlock/command/child.lua",
    from = "if self._must_continue and number == TSTP then",
    to = "if self._must_continue then",
    spec = "spec/command/run_signals_spec.lua",
  },
  {
    name = "a command is continued at its next stop although a CONT came in between",
    regression = 102,
    file = "lua/etcdlock/command/child.lua",
    from = [[  self._must_continue = false
]],
    to = "",
    spec = "spec/command/run_signals_spec.lua",
  },
  {
    name = "the timer that looks for dropped clients outlives the request of the only client",
    regression = 103,
    file = "lua/etcdlock/wait/collector.lua",
    from = "elseif has_clients() and (has_others or first.request) then",
    to = "elseif has_clients() then",
    spec = "spec/nginx/request_end_spec.lua",
  },
  {
    name = "a client that is being closed starts its wake server",
    regression = 104,
    file = "src/lua/wait.c",
    from = "if (lc->is_closing) {",
    to = "if (false && lc->is_closing) {",
    spec = "spec/nginx/waits_spec.lua",
  },
  {
    name = "nobody reaps the orphans of the command in a container without an init",
    regression = 105,
    file = "src/base/child.c",
    from = [[  prctl(PR_SET_CHILD_SUBREAPER, 1);
]],
    to = "",
    spec = "spec/command/run_processes_spec.lua",
  },
  {
    name = "the end of --max-hold after TERM changes the exit status",
    regression = 106,
    file = "lua/etcdlock/command/run.lua",
    from = "if self._child:has_ended() then",
    to = "if false then",
    spec = "spec/command/run_processes_spec.lua",
  },
  {
    name = "a loss after TERM delays the KILL of the group",
    regression = 106,
    file = "lua/etcdlock/command/child.lua",
    from = [[
  self:_kill_after(grace)
end]],
    to = [[
  if self._kill_timer then self._kill_timer:close() self._kill_timer = nil end
  self:_kill_after(grace)
end]],
    spec = "spec/command/run_processes_spec.lua",
  },
  {
    name = "a failed background read counts as an outage until the next call that fails fast",
    regression = 107,
    file = "src/lock/breaker.c",
    from = "  return opened_ms != 0 && el_now_ms() < opened_ms + EL_FAIL_FAST_MS;",
    to = [[  return breaker->probe != NULL ||
         (opened_ms != 0 && el_now_ms() < opened_ms + EL_FAIL_FAST_MS);]],
    spec = "spec/errors/causes_spec.lua",
  },
  {
    name = "a call where nginx can yield but has no cosockets tries to wait",
    regression = 108,
    file = "lua/etcdlock/wait/nginx.lua",
    from = "return core.yieldable() and not CANNOT_WAIT[ngx.get_phase()]",
    to = "return core.yieldable()",
    spec = "spec/nginx/phase_limits_spec.lua",
  },
  {
    name = "a loss just before a wait in nginx does not interrupt the wait",
    regression = 109,
    file = "src/lua/wait.c",
    from = "el_lock_loss(lk) != EL_LOSS_NONE) {",
    to = "false) {",
    spec = "spec/nginx/ended_waits_spec.lua",
  },
  {
    name = "try_lock and lock_async do not release the permit of an ended with_lock",
    regression = 110,
    file = "lua/etcdlock/held_locks.lua",
    from = [[    release_cut_off(self, get_group("permit", wanted._full_name))
]],
    to = "",
    spec = "spec/nginx/killed_with_lock_spec.lua",
  },
  {
    name = "the garbage collector does not run if one nginx request has made all clients",
    regression = 111,
    file = "lua/etcdlock/wait/collector.lua",
    from = "if not is_running() then",
    to = "if has_others and not is_running() then",
    spec = "spec/nginx/clients_spec.lua",
  },
  {
    name = "the read lock of an ended with_read_lock blocks the writers of its nginx request",
    regression = 112,
    file = "lua/etcdlock/held_locks.lua",
    from = [[
      release_cut_off(self, get_group("read", full_name))]],
    to = " local _ = full_name",
    spec = "spec/nginx/killed_with_lock_spec.lua",
  },
  {
    name = "the module of an event loop is loaded at its first use",
    regression = 113,
    file = "lua/etcdlock/client.lua",
    from = [[  loops.load()
]],
    to = "",
    spec = "spec/observability/descriptors_spec.lua",
  },
  {
    name = "of several wrong options, each run of a program names another one",
    regression = 114,
    file = "lua/etcdlock/lock_options.lua",
    from = "refused = refused and refused < field and refused or field",
    to = "refused = field",
    spec = "spec/lock/options_spec.lua",
  },
  {
    name = "a message about the argument PREFIX of ls names the option --prefix",
    regression = 115,
    file = "lua/etcdlock/command/settings.lua",
    from = [[
  { "^client:%a+: prefix", "PREFIX" },
]],
    to = "",
    spec = "spec/command/ls_spec.lua",
  },
  {
    name = "a job runs again if it is started by a machine whose clock is late",
    regression = 116,
    file = "lua/etcdlock/once.lua",
    from = "get_period(last.started, length) < get_period(self._started, length)",
    to = "get_period(last.started, length) ~= get_period(self._started, length)",
    spec = "spec/command/once_spec.lua",
  },
  {
    name = "a lock call in nginx has no time limit by default",
    regression = 118,
    file = "lua/etcdlock/wait/nginx.lua",
    from = "DEFAULT_TIMEOUT = 5,",
    to = "DEFAULT_TIMEOUT = nil,",
    spec = "spec/nginx/reports_spec.lua",
  },
  {
    name = "no message tells that a process makes many clients",
    regression = 119,
    file = "lua/etcdlock/init.lua",
    from = "local MANY_CLIENTS = 8",
    to = "local MANY_CLIENTS = math.huge",
    spec = "spec/nginx/clients_spec.lua",
  },
  {
    name = "the timer example logs the error object of a job as it is",
    regression = 120,
    file = "examples/openresty/timer.lua",
    from = "tostring(failure)",
    to = "failure",
    spec = "spec/nginx/timer_example_spec.lua",
  },
  {
    name = "etcdlock stops at Ctrl-Z and leaves the foreground to its command",
    regression = 121,
    file = "lua/etcdlock/command/child.lua",
    from = [[    core.set_terminal_group(core.group())
    core.stop(true)]],
    to = [[    core.stop(true)]],
    spec = "spec/command/terminal_spec.lua",
  },
  {
    name = "the message about an option with the name of another library does not name ours",
    regression = 122,
    file = "lua/etcdlock/check.lua",
    from = "find_key(options, field) or not other and find_by_alias(options, field)",
    to = "find_key(options, field) or nil and find_by_alias(options, field)",
    spec = "spec/errors/misuse_spec.lua",
  },
  {
    name = "the traceback of an error inside with_lock is not reported",
    regression = 123,
    file = "lua/etcdlock/coroutines.lua",
    from = [[    call:report(trace, result)
]],
    to = "",
    spec = "spec/nginx/reports_spec.lua",
  },
  {
    name = "a timeout names a multi-lock that waits itself as the holder",
    regression = 124,
    file = "lua/etcdlock/label.lua",
    from = "is_multi = (label.names or label.first) and true or nil,",
    to = "is_multi = nil,",
    spec = "spec/observability/long_wait_spec.lua",
  },
  {
    name = "an error of __tostring replaces the error object that with_lock raises",
    regression = 125,
    file = "lua/etcdlock/coroutines.lua",
    from = "local ok, text = pcall(tostring, err)",
    to = "local ok, text = true, tostring(err)",
    spec = "spec/errors/error_objects_spec.lua",
  },
  {
    name = "a held lock has a table with more than 16 fields",
    regression = 126,
    file = "lua/etcdlock/lock.lua",
    from = "_count = 0, -- number of unlock calls that are due",
    to = "_count = 0, a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, i = 0, j = 0, k = 0,",
    spec = "spec/lock/scale_spec.lua",
  },
  {
    name = "--once-per compares the time of a recorded run with its own start",
    regression = 127,
    file = "lua/etcdlock/once.lua",
    from = "<= get_period(os.time(), length) + 1 then",
    to = "<= get_period(self._started, length) + 1 then",
    spec = "spec/command/once_spec.lua",
  },
  {
    name = "a record of --once-per may contain a host name of any length",
    regression = 127,
    file = "lua/etcdlock/once.lua",
    from = [[type(record.host) == "string" and #record.host <= HOST_MAX]],
    to = [[type(record.host) == "string" and HOST_MAX > 0]],
    spec = "spec/command/once_spec.lua",
  },
  {
    name = "ls counts each character as one column",
    regression = 128,
    file = "lua/etcdlock/command/report.lua",
    from = [[require "etcdlock.core".columns(text) or #text]],
    to = [[select(2, text:gsub("[^\128-\191]", "")) or #text]],
    spec = "spec/command/ls_spec.lua",
  },
  {
    name = "ls --watch does not cut the line for an empty list",
    regression = 128,
    file = "lua/etcdlock/command/report.lua",
    from = "return screen and M.cut(text, screen.width) or text",
    to = "return text",
    spec = "spec/command/ls_spec.lua",
  },
  {
    name = "make install copies the Lua files to a directory below lua/ if PREFIX is relative",
    regression = 129,
    file = "Makefile",
    from = "DESTINATION_LUA = $(call absolute,$(DESTDIR)$(LUADIR))",
    to = "DESTINATION_LUA = $(DESTDIR)$(LUADIR)",
    spec = "spec/packaging/prefix_spec.lua",
  },
  {
    name = "make install advises to replace LUA_PATH although it is set",
    regression = 129,
    file = "Makefile",
    from = [[?/init.lua;\$${LUA_PATH:-;}"]],
    to = [[?/init.lua;;"]],
    spec = "spec/packaging/prefix_spec.lua",
  },
  {
    name = "the message about a string instead of options does not show how options are written",
    regression = 130,
    file = "lua/etcdlock/check.lua",
    from = [["a table such as " .. show_example(options)]],
    to = [["a table"]],
    spec = "spec/errors/misuse_spec.lua",
  },
  {
    name = "a queue whose values exceed the size of a message is not read in smaller parts",
    regression = 131,
    file = "src/protocol/lock_txn.c",
    from = "seen->is_too_large = answer->err.is_too_large && limit > 1 &&",
    to = "seen->is_too_large = false && limit > 1 &&",
    spec = "spec/lock/user_data_spec.lua",
  },
  {
    name = "an answer that omits the leases of keys is read as a free lock",
    regression = 132,
    file = "src/protocol/lock_txn.c",
    from = "  if (answer->err.code == EL_OK && omits(keys,",
    to = "  if (false && omits(keys,",
    simulator = true,
    histories = 6000,
  },
  {
    name = "a key is written although its last read has failed",
    regression = 133,
    file = "lua/etcdlock/guarded.lua",
    from = "if not message or not self:_left() then",
    to = "if true or not self:_left() then",
    spec = "spec/lock/failed_reads_spec.lua",
  },
  {
    name = "connect expects gRPC to start as many threads on each machine",
    regression = 134,
    file = "src/net/loop.c",
    from = "return GRPC_THREADS + (int)cores;",
    to = "return GRPC_THREADS + GRPC_CORES_MIN + 0 * (int)cores;",
    spec = "spec/process/many_cores_spec.lua",
  },
  {
    name = "connect raises an error after a client was collected with an object that refers to it",
    regression = 135,
    file = "src/lua/util.c",
    from = [[  luaL_getmetatable(L, COLLECTED);
  lua_setmetatable(L, arg);]],
    to = "",
    spec = "spec/process/finalizers_spec.lua",
  },
  {
    name = "a client that is closed logs a failover",
    regression = 136,
    file = "src/lock/client.c",
    from = "if (cl->is_closing) return;",
    to = "if (false && cl->is_closing) return;",
    spec = "spec/observability/log_spec.lua",
  },
  {
    name = "a client that takes its lingering lock again looks for other clients by a watch only",
    regression = 137,
    file = "src/lock/linger.c",
    from = "if (linger->query == NULL) query_contention(linger, true);",
    to = "",
    spec = "spec/lock/unanswered_requests_spec.lua",
  },
  {
    name = "a message of the core shows characters that set the direction of writing",
    regression = 138,
    file = "src/base/text.c",
    from = [[         (code >= 0x2028 && code <= 0x202e) ||
]],
    to = "",
    spec = "spec/errors/unsafe_text_spec.lua",
  },
  {
    name = "each pending lock that was cancelled keeps memory until a later wait",
    regression = 139,
    file = "lua/etcdlock/pending.lua",
    from = "self._wakeups:forget(self._number)",
    to = "",
    spec = "spec/event_loop/async_spec.lua",
  },
  {
    name = "break_lock takes an entry for a waiter if its label names a key that does not exist",
    regression = 140,
    file = "lua/etcdlock/queue.lua",
    from = "entry.held = nil -- unknown: its label may be wrong",
    to = "entry.held = false",
    spec = "spec/lock/hostile_labels_spec.lua",
  },
  {
    name = "a handler of ssl_session_fetch yields",
    regression = 141,
    file = "lua/etcdlock/wait/nginx.lua",
    from = "ssl_session_fetch = true, ",
    to = "",
    spec = "spec/nginx/phases_spec.lua",
  },
  {
    name = "if nginx refuses to send, the message asks for more descriptors",
    regression = 142,
    file = "lua/etcdlock/wait/nginx.lua",
    from = [[return NOT_SENT .. err, "context"]],
    to = [[return NOT_ACCEPTED, "nomem"]],
    spec = "spec/nginx/refused_send_spec.lua",
  },
  {
    name = "a start with --once-per gives up if etcd ends its lease",
    regression = 143,
    file = "lua/etcdlock/once.lua",
    from = [[while code == "lost" do]],
    to = [[while code == "none" do]],
    spec = "spec/command/once_spec.lua",
  },
  {
    name = "a start with --once-per waits longer than its period",
    regression = 143,
    file = "lua/etcdlock/once.lua",
    from = "asked._default_timeout = get_time_left(self._started, self._length)",
    to = "asked._default_timeout = 60",
    spec = "spec/command/once_spec.lua",
  },
  {
    name = "a write whose answer is too large fails with invalid",
    regression = 144,
    file = "src/lock/request_queue.c",
    from = [[  if (err->code == EL_INVALID) err->is_retriable = true;
]],
    to = [[  if (err->code == EL_INVALID) return;
]],
    spec = "spec/errors/large_answers_spec.lua",
  },
  {
    name = "break_lock takes a multi-lock that has lost one of its keys for a waiter",
    regression = 145,
    file = "lua/etcdlock/queue.lua",
    from = [[        return first == own
      end
    end
  end
  return nil]],
    to = [[        return first == own
      end
    end
  end
  return false]],
    spec = "spec/multi_lock/multi_lock_spec.lua",
  },
  {
    name = "a second try that reads in parts takes the number of keys for a sign of omitted keys",
    regression = 146,
    file = "src/protocol/entry.c",
    from = "} else if (answer->is_truncated && entry->bound_rev == 1) {",
    to = "} else if (answer->is_truncated) {",
    spec = "spec/lock/user_data_spec.lua",
  },
  {
    name = "a call of a collected client raises an error in a finalizer",
    regression = 147,
    file = "src/lua/util.c",
    from = [[strcmp(name, "txn") == 0 ? itself]],
    to = "name == NULL             ? itself",
    spec = "spec/process/finalizers_spec.lua",
  },
  {
    name = "the limit of the health check does not depend on how long answers take",
    regression = 148,
    file = "src/net/health.c",
    from = [[int64_t el_health_limit_ms(const el_health *health) {
]],
    to = [[int64_t el_health_limit_ms(const el_health *health) {
  if (health->patience.is_alone) return 600;
]],
    spec = "spec/cluster/slow_connections_spec.lua",
  },
  {
    name = "a deleted key of a waiting multi-lock counts as omitted by etcd",
    regression = 149,
    file = "src/protocol/lock_txn.c",
    from = "if (is_ours && hides_own(",
    to = "if ((is_ours || true) && hides_own(",
    simulator = true,
  },
  {
    name = "a waiter whose read shows no older key reads again if a key was changed meanwhile",
    regression = 150,
    file = "src/protocol/entry.c",
    from = [[} else if (answer->predecessor.rev != 0 ? entry->must_reread
                                          : !is_recent_enough(answer)) {]],
    to = [[} else if (entry->must_reread || (answer->predecessor.rev == 0 &&
                                      !is_recent_enough(answer))) {]],
    spec = "spec/semaphore/permits_spec.lua",
  },
  {
    name = "queues reads all values in one request, and fails if the answer is too large",
    regression = 170,
    file = "lua/etcdlock/snapshot.lua",
    from = "failure = read_some_values(self, kvs, first, last)",
    to = "failure = read_some_values(self, kvs, 1, #kvs)",
    spec = "spec/lock/queues_limits_spec.lua",
  },
  {
    name = "no metric shows a hold or a wait before its end",
    regression = 171,
    file = "lua/etcdlock/client.lua",
    from = [[    self._metrics:measure_ages(self._held_locks)
]],
    to = "",
    spec = "spec/observability/metrics_spec.lua",
  },
  {
    name = "the alert about a hanging lock is silent while other lock calls succeed",
    regression = 172,
    file = "examples/prometheus/alerts.yml",
    from = "expr: etcdlock_oldest_wait_seconds > 300",
    to = "expr: etcdlock_oldest_wait_seconds > 300 and rate(etcdlock_wait_seconds_count[5m]) == 0",
    spec = "spec/observability/alerts_spec.lua",
  },
  {
    name = "a lost lock leaves no trace in nginx without a log function",
    regression = 173,
    file = "lua/etcdlock/events.lua",
    from = [[elseif not self._log and event.event == "lost" then]],
    to = [[elseif false then]],
    spec = "spec/nginx/reports_spec.lua",
  },
  {
    name = "the status page does not name the prefix of its locks",
    regression = 174,
    file = "examples/openresty/status.lua",
    from = [[("%d names below %q, %d entries, %s"):format(#queues, M.prefix, #rows,]],
    to = [[("%d names, %d entries, %s"):format(#queues, #rows,]],
    spec = "spec/observability/status_page_spec.lua",
  },
  {
    name = "ls shows a blank name without quotes",
    regression = 175,
    file = "lua/etcdlock/command/report.lua",
    from = [[(name:find "^%s" or name:find "%s$") and quote(name) or name]],
    to = "name",
    spec = "spec/command/ls_spec.lua",
  },
  {
    name = "ls does not show the n of a semaphore",
    regression = 175,
    file = "lua/etcdlock/command/queues.lua",
    from = [[entry.permits and ("permit/%d"):format(entry.permits) or entry.mode]],
    to = "entry.mode",
    spec = "spec/command/ls_spec.lua",
  },
  {
    name = "with_lock without its name reports a missing function",
    regression = 176,
    file = "lua/etcdlock/acquire.lua",
    from = [[opts == nil and fn == nil and lock._mode ~= "multi"]],
    to = [[opts == nil and fn == nil and lock._mode == "none"]],
    spec = "spec/errors/misleading_messages_spec.lua",
  },
  {
    name = "a waiter learns the holder only after the re-read interval",
    regression = 177,
    file = "src/protocol/entry.c",
    from = "  entry->wake_at = now_ms + EL_FIRST_READ_MS;",
    to = "  entry->wake_at = now_ms + entry->reread_ms;",
    spec = "spec/errors/misleading_messages_spec.lua",
  },
  {
    name = "a message names a lock with the client's prefix",
    regression = 178,
    file = "src/lock/lock_messages.c",
    from = "size_t skip = waiter->prefix_len;",
    to = "size_t skip = 0 * waiter->prefix_len;",
    spec = "spec/errors/misleading_messages_spec.lua",
  },
  {
    name = "doctor ends with a traceback if the key of its test lock cannot be read",
    regression = 179,
    file = "lua/etcdlock/command/doctor.lua",
    from = "local is_kept, reason = await_renewal(lock)",
    to = "local is_kept, reason = assert(await_renewal(lock))",
    spec = "spec/command/doctor_spec.lua",
  },
  {
    name = "the first request to a single endpoint is cancelled after 1.2 s",
    regression = 190,
    file = "src/net/health.c",
    from = "health->is_alone ? EL_ALONE_FACTOR * limit_ms : limit_ms",
    to = "limit_ms",
    spec = "spec/cluster/slow_connections_spec.lua",
  },
  {
    name = "a keepalive is given up after twice the round trip",
    regression = 191,
    file = "src/net/patience.c",
    from = "variation > 3 * srtt ? variation : 3 * srtt",
    to = "variation",
    spec = "spec/cluster/slow_connections_spec.lua",
  },
  {
    name = "a wait without a timeout ends after 5 s although the client is about to connect",
    regression = 192,
    file = "src/lock/local_queue_driver.c",
    from = "    if (waiter->timeout_ms < limit_ms) {",
    to = "    if (false) {",
    spec = "spec/cluster/slow_connections_spec.lua",
  },
  {
    regression = 193,
    gone = "two rules prevent it: an early keepalive, and a sight that an entry reports",
  },
  {
    name = "no attempt to connect waits long enough for a second name server",
    regression = 194,
    file = "src/net/channel.c",
    from = "ch->is_dns_slow ? EL_NAME_LONG_MS : EL_NAME_MS;",
    to = "EL_NAME_MS;",
    spec = "spec/cluster/name_server_spec.lua",
  },
  {
    name = "the message of a loss does not tell that the server allows too few streams",
    regression = 195,
    file = "src/lock/session_driver.c",
    from = [[  if (err->code == EL_UNAVAILABLE &&
      el_keepalive_is_refused]],
    to = [[  if (false &&
      el_keepalive_is_refused]],
    spec = "spec/cluster/slow_connections_spec.lua",
  },
  {
    name = "a member that requires a token is asked again for its status with the whole time limit",
    regression = 196,
    file = "src/etcd/maintenance.c",
    from = "call->request.timeout_ms = left_ms;",
    to = "call->request.timeout_ms = call->timeout_ms;",
    spec = "spec/cluster/slow_connections_spec.lua",
  },
  {
    name = "the message about an unknown host name lacks the reason of the resolver",
    regression = 197,
    file = "src/tls/probe.c",
    from = [[    p->reason =
        failure == EAI_SYSTEM ? el_errno_text(errno) : gai_strerror(failure);
]],
    to = "",
    spec = "spec/errors/messages_spec.lua",
  },
  {
    name = "etcdlock exits with 0 although its output is lost",
    regression = 200,
    file = "lua/etcdlock/command/report.lua",
    from = "return io.write(...) and io.flush()",
    to = "return io.write(...)",
    spec = "spec/errors/unsafe_text_spec.lua",
  },
  {
    name = "the error log of nginx gets a leaked lock as a warning",
    regression = 201,
    file = "lua/etcdlock/wait/nginx.lua",
    from = "ngx.log(ngx.ERR, message)",
    to = "ngx.log(ngx.WARN, message)",
    spec = "spec/nginx/reports_spec.lua",
  },
  {
    name = "doctor reports keys below a lock's name only while the lock is in use",
    regression = 202,
    file = "lua/etcdlock/command/doctor.lua",
    from = "if keys >= MANY_KEYS and not has_heavy_below[name] and not is_below(in_use, name) then",
    to = "if false then",
    spec = "spec/command/doctor_spec.lua",
  },
  {
    name = "doctor does not wait until its test lock is renewed",
    regression = 203,
    file = "lua/etcdlock/command/doctor.lua",
    from = "while is_held and lock:held() and core.now() + lock:remaining() < ends + RENEWED do",
    to = "while ends < 0 do",
    spec = "spec/command/doctor_spec.lua",
  },
  {
    name = "doctor reports a deadlock of the candidates of two elections",
    regression = 204,
    file = "lua/etcdlock/command/doctor.lua",
    from = [[ and waiter.mode ~= "leader"
]],
    to = "\n",
    spec = "spec/command/doctor_spec.lua",
  },
  {
    name = "a client without a session makes the joined remaining time 0",
    regression = 205,
    file = "lua/etcdlock/metrics.lua",
    from = "return (a == 0 or b == 0) and math.max(a, b) or math.min(a, b)",
    to = "return math.min(a, b)",
    spec = "spec/observability/metrics_spec.lua",
  },
  {
    name = "a waiter that reads its queue early asks for the holder only after 10 s",
    regression = 206,
    file = "src/protocol/entry.c",
    from = "now_ms + (entry->has_asked_holder ? entry->reread_ms",
    to = "now_ms + (true ? entry->reread_ms",
    spec = "spec/errors/misleading_messages_spec.lua",
  },
  {
    name = "a request that the health check ended counts as a slow one if it took 3 s",
    regression = 210,
    file = "src/lock/request_queue.c",
    from = "el_now_ms() >= answer->sent_ms + request->timeout_ms;",
    to = "el_now_ms() >= answer->sent_ms + EL_ATTEMPT_MS;",
    spec = "spec/cluster/fail_fast_spec.lua",
  },
  {
    name = "the owner of calls in the main coroutine is a coroutine",
    regression = 215,
    file = "lua/etcdlock/held_locks.lua",
    from = "local MAIN = {}",
    to = "local MAIN = coroutine.create(function() end)",
    spec = "spec/nginx/phases_spec.lua",
  },
  {
    name = "the reason of the resolver is in the language of the program's locale",
    regression = 216,
    file = "src/net/diagnosis.c",
    from = "  el_c_locale_enter(); /* until",
    to = "  /* until",
    spec = "spec/observability/locale_spec.lua",
  },
  {
    name = "a failed connection through a Unix socket is not diagnosed",
    regression = 217,
    file = "src/net/channel.c",
    from = [[  if (at->diagnosis != NULL ||
]],
    to = [[  if (at->endpoint.is_unix || at->diagnosis != NULL ||
]],
    spec = "spec/tls/connect_spec.lua",
  },
  {
    regression = 218,
    gone = "a read is sent after each answer that leaves a keepalive unproven, whatever it answers",
  },
  {
    name = "after a spent handoff budget the next key is put only when the delete is answered",
    regression = 219,
    file = "src/protocol/local_queue.c",
    from = "return count_taken(queue) < most && n_busy <= most;",
    to = "return count_taken(queue) < most && n_busy < most;",
    spec = "spec/lock/handoff_spec.lua",
  },
  {
    name = "a timeout of a candidate names no leader",
    regression = 222,
    file = "lua/etcdlock/label.lua",
    from = "return { value = text, ago = ago }",
    to = "return nil",
    spec = "spec/errors/misleading_messages_spec.lua",
  },
  {
    name = "the status page shows a name that ends with a blank without quotes",
    regression = 223,
    file = "examples/openresty/status.lua",
    from = [[return (name:find "^%s" or name:find "%s$") and]],
    to = [[return name:find "^%s" and]],
    spec = "spec/observability/status_page_spec.lua",
  },
  {
    name = "doctor finds only two clients that wait for each other, not three",
    regression = 224,
    file = "lua/etcdlock/command/doctor.lua",
    from = [[
          visit(next_wait)
]],
    to = [[
          if #path < 2 then visit(next_wait) end
]],
    spec = "spec/command/doctor_spec.lua",
  },
  {
    name = "a batch may put the key of a waiter and delete the key for which it waits",
    regression = 225,
    file = "src/lock/request_queue.c",
    from = "if (member->is_enqueue && member->lock_queue == request->lock_queue) {",
    to = [[if (member->is_enqueue && request->is_enqueue &&
        member->lock_queue == request->lock_queue) {]],
    spec = "spec/lock/unanswered_requests_spec.lua",
  },
  {
    name = "a member whose host name is being resolved counts as failing",
    regression = 230,
    file = "src/net/channel.c",
    from = "         (has_cause(at) || (at->cause_until_ms != 0 && at->diagnosis != NULL));",
    to = "         (has_cause(at) || (is_connecting(at) && !has_address(at)));",
    spec = "spec/cluster/name_server_spec.lua",
  },
  {
    name = "a keepalive is sent after the answer to the one before, and its read after that",
    regression = 231,
    file = "src/protocol/session.c",
    from = [[if (now_ms >= session->renew_at) {
    send_keepalive(session, now_ms, out);
    read_key(session, now_ms, out);]],
    to = [[if (now_ms >= session->renew_at && session->keepalives == 0) {
    send_keepalive(session, now_ms, out);]],
    spec = "spec/cluster/slow_connections_spec.lua",
  },
  {
    regression = 232,
    gone = "the health check watches keepalives, so their answers count as those of other calls",
  },
  {
    name = "the read that proves a keepalive is sent after the answer to the keepalive",
    regression = 233,
    file = "src/protocol/session.c",
    from = [[    send_keepalive(session, now_ms, out);
    read_key(session, now_ms, out);
]],
    to = [[    send_keepalive(session, now_ms, out);
]],
    spec = "spec/cluster/slow_connections_spec.lua",
  },
  {
    name = "the next keepalive is sent after the answer to the last one",
    regression = 234,
    file = "src/protocol/session.c",
    from = [[  session->renew_at = now_ms + interval_ms(session, session->ttl_ms);
  push]],
    to = [[  session->renew_at = INT64_MAX;
  push]],
    spec = "spec/cluster/slow_connections_spec.lua",
  },
  {
    name = "the first wait without a timeout ends after 5 s although no cause is known",
    regression = 235,
    file = "src/lock/request_queue.c",
    from = ": EL_FIRST_CONTACT_MS;",
    to = ": EL_CALL_MS;",
    spec = "spec/cluster/slow_connections_spec.lua",
  },
  {
    name = "the first next of an observer fails after 5 s although the network is only slow",
    regression = 236,
    file = "lua/etcdlock/observer.lua",
    from = "(timeout or self._client._core:wait_limit())",
    to = "(timeout or 5)",
    spec = "spec/election/observer_spec.lua",
  },
  {
    name = "what is wrong with one endpoint counts as an answer of etcd",
    regression = 237,
    file = "src/net/channel.c",
    from = [[    if (err->is_retriable) err->code = EL_UNAVAILABLE;
]],
    to = "",
    spec = "spec/errors/codes_spec.lua",
  },
  {
    name = "connections that were refused end the first wait, although one has opened since",
    regression = 238,
    file = "src/net/channel.c",
    from = "return !is_opened &&",
    to = "return (!is_opened || true) &&",
    spec = "spec/cluster/slow_connections_spec.lua",
  },
  {
    name = "an answer that etcd has no leader does not count as a contact with etcd",
    regression = 239,
    file = "src/lock/request_queue.c",
    from = [[  if (err->is_from_etcd) queue->shared->contact.has_answered = true;
]],
    to = "",
    spec = "spec/cluster/slow_connections_spec.lua",
  },
  {
    name = "an Authenticate is given up after 0.75 s",
    regression = 240,
    file = "src/etcd/auth.c",
    from = ".timeout_ms = EL_AUTHENTICATE_MS,",
    to = ".timeout_ms = 750,",
    simulator = true,
  },
  {
    name = "a request without an answer makes the client replace its token",
    regression = 241,
    file = "src/etcd/auth.c",
    from = [[suspect_token(auth, call);
    } else]],
    to = [[reject_token(auth);
    } else]],
    simulator = true,
  },
  {
    name = "a failover drops the auth token",
    regression = 242,
    file = "src/etcd/auth.c",
    from = [[  auth->read_answered_ms = 0;
]],
    to = [[  auth->read_answered_ms = 0;
  auth->is_authenticated = false;
]],
    simulator = true,
  },
  {
    name = "a write that a full database may have applied fails with no_space",
    regression = 243,
    file = "src/lock/request_queue.c",
    from = [[  err->code = EL_UNAVAILABLE;
}]],
    to = [[  if (err->code != EL_NO_SPACE) err->code = EL_UNAVAILABLE;
}]],
    spec = "spec/errors/codes_spec.lua",
  },
  {
    name = "user data with the name of the client's key counts as an answer without leases",
    regression = 244,
    file = "src/protocol/lock_txn.c",
    from = "el_bytes_are_equal(own->kvs[0].value, puts[i].value)",
    to = "true",
    spec = "spec/lock/user_data_spec.lua",
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
    name = "an answer with an impossible revision is used",
    regression = 246,
    file = "src/etcd/kv.c",
    from = "!el_is_revision(from->header->revision) ||",
    to = "",
    spec = "spec/errors/malformed_answers_spec.lua",
  },
  {
    name = "time stands still without CLOCK_BOOTTIME",
    regression = 247,
    file = "src/base/clock.c",
    from = "return FAR_FUTURE_US + read_us(CLOCK_MONOTONIC);",
    to = "return FAR_FUTURE_US;",
    spec = "spec/process/no_clock_spec.lua",
  },
  {
    name = "a run that is recorded exits with 70 if its lock is lost afterwards",
    regression = 248,
    file = "lua/etcdlock/command/run.lua",
    from = "local was_held = status and keep(self) or is_recorded",
    to = "local was_held = status and keep(self)",
    spec = "spec/command/once_spec.lua",
  },
  {
    name = "a run repeats the write of its record while etcd's database is full",
    regression = 265,
    file = "lua/etcdlock/once.lua",
    from = "local is_over = core.now() >= ends and lock:_left()",
    to = "local is_over = false",
    spec = "spec/command/once_spec.lua",
  },
  {
    name = "resty.etcdlock takes an empty key",
    regression = 249,
    file = "lua/resty/etcdlock.lua",
    from = [[if key == "" then]],
    to = "if false then",
    spec = "spec/nginx/resty_spec.lua",
  },
  {
    name = "a wait in a callback of luv stops the loop without loop = \"luv\"",
    regression = 250,
    file = "lua/etcdlock/wait/luv.lua",
    from = "not chosen and is_running())",
    to = "false)",
    spec = "spec/event_loop/luv_detection_spec.lua",
  },
  {
    name = "the release of an owner just before a timeout does not count as an answer",
    regression = 251,
    file = "src/lock/local_queue_driver.c",
    from = "was_held_since(waiter->queue, since_ms) ||",
    to = "",
    spec = "spec/lock/unanswered_requests_spec.lua",
  },
  {
    name = "a wait goes on although answers take too long for the TTL",
    regression = 252,
    file = "src/lock/session_driver.c",
    from = "driver->news |= EL_SESSION_NEWS_TOO_SLOW;",
    to = "",
    spec = "spec/cluster/slow_connections_spec.lua",
  },
  {
    name = "a lease is not renewed after its member was left, or the leader has changed",
    regression = 253,
    file = "src/protocol/session.c",
    from = "if (session->state == EL_SESSION_ALIVE) on_moved(session, now_ms);",
    to = "(void)on_moved;",
    spec = "spec/cluster/failover_spec.lua",
  },
  {
    name = "a write that nobody answers may take one attempt only",
    regression = 254,
    file = "src/lock/request_queue.c",
    from = "if (left_ms >= most_ms && !may_be_slow(request)) return most_ms;",
    to = "if (left_ms >= most_ms) return most_ms;",
    spec = "spec/cluster/unanswered_writes_spec.lua",
  },
  {
    name = "a member that tells of a new leader is left",
    regression = 255,
    file = "src/net/channel.c",
    from = "if (err->has_new_leader && at->failed_until_ms <= el_now_ms()) {",
    to = "if (false) {",
    spec = "spec/cluster/failover_spec.lua",
  },
}
