---@meta etcdlock.testing
-- Made by `make doc` from the docstrings in lua/: change those.

---The ways in which `testing.fail` and `testing.each_failure` make a call of the program end.
---@alias etcdlock.testing.outcome
---| "timeout" # the lock was not free within the `timeout` of the call; for an observer: no change
---| "lost" # the hold is lost before the call; for a `with_lock`: at the end of its function. Later calls under this hold fail, too. For a call that waits for a lock: the waiter's key is deleted
---| "unavailable" # etcd does not answer, and has not got the request. For `unlock`: etcd has not confirmed the release, which goes on
---| "applied" # etcd has applied the write, but its answer is lost: the call fails with `unavailable`, the code of an unknown outcome
---| "locked" # a try found that the lock is taken

---@class etcdlock.testing
local M = {}

---Starts an etcd for the tests of this process, or uses the one at the option `endpoints`. From
---then on `opts`, with the address, are the defaults of `etcdlock.connect`. So the program uses
---this etcd, too, unless it names endpoints. Call `start` before the program connects. Without the
---option `log`, leaked locks are reported on standard error, and lost locks are not.
---
---The private etcd is the program `etcd` in `PATH`. Later calls start no second one. It ends, and
---its data are removed, by `testing.stop`, or when the process ends.
---Fails with unavailable, nomem, forked: `unavailable` if etcd cannot be started.
---@param opts? etcdlock.ConnectOptions
---@return string|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function M.start(opts) end

---Ends the private etcd, and the effect of `testing.start`. First close the clients that use it.
---@return true
function M.stop() end

---Makes the private etcd stand still until `testing.resume`. Calls then take as long as in any
---outage, `lock:put` 5 s for example. `testing.outage` takes no time.
---Raises if there is no private etcd.
---@return true
function M.pause() end

---Ends the effect of `testing.pause`.
---Raises if there is no private etcd.
---@return true
function M.resume() end

---Creates a client that counts as a client of another process. A call of the program that waits for
---a lock of this client fails with `timeout`, and not with `deadlock`. The functions of this module
---never make calls of this client fail. Starts etcd if `testing.start` was not called.
---Fails as etcdlock.connect, etcdlock.testing.start.
---@param opts? etcdlock.ConnectOptions as for `etcdlock.connect`
---@return etcdlock.Client|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function M.connect(opts) end

---Calls `condition` every 5 ms until it returns a true value, and returns that value. In an event
---loop only the coroutine waits.
---Raises an error of `condition`.
---Fails with timeout.
---@param condition function
---@param seconds? etcdlock.seconds time to wait; 5 if left out
---@return any|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function M.eventually(condition, seconds) end

---Makes the program lose all its holds of `name` now. When the call returns, `held` of these locks
---returns false, the `on_lost` functions have run, and the name is free.
---
---For `deleted`, `replaced` and `max_hold`, etcd and the client do what the reason says. For the
---other reasons, the key is deleted and the lock reports the reason; the option `log` reports
---`deleted`.
---Raises for an unknown reason.
---Fails with not_held: if the program does not hold the name.
---@param name string without the prefix of the program's client
---@param reason? etcdlock.reason `expired` if left out
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function M.lose(name, reason) end

---Calls `fn`. The call number `nth` of the kind `call` in it ends with `outcome`; the others do
---what they always do.
---Raises an error of `fn`; if `fn` makes fewer such calls, or the call cannot end so.
---@param call string a [call that may fail](testing_your_code.md#5-one-failure), such as `lock:put`
---@param outcome etcdlock.testing.outcome
---@param fn function
---@param nth? integer which of these calls, from 1
---@return any ... what `fn` has returned; or a message and a code
function M.fail(call, outcome, fn, nth) end

---Calls `fn`. All calls in it that need etcd fail with `unavailable` at once, as in an outage that
---is shorter than the TTL: the program keeps its holds, and no write is applied.
---Raises an error of `fn`.
---@param fn function
---@return any ... what `fn` has returned; or a message and a code
function M.outage(fn) end

---Calls `fn` again and again. In each run, one call of the program ends in one of the ways that its
---documentation lists: the first call with its first [outcome](#testing), with the second one, and
---so on; then the second call. After each run, `is_right` tells whether the data are right.
---
---`is_right` gets the results of `fn` as `pcall` returns them: true and the results, or false and
---the error. If the data are wrong, or are not what `fn` has returned, it raises an error, or
---returns false or nil, and a message. A lock that is still held after that is a fault, too: `fn`
---has forgotten it, perhaps on the path of a failure. It is unlocked before the next run.
---
---`fn` first brings the data into their initial state, by a client of `testing.connect`, whose
---calls do not fail. `fn` must make the same calls in each run, up to the one that fails.
---Fails with text a report with a line for each failure after which the data are wrong, such as
---`shop.lua:12: lock:put ended with "unavailable", although etcd has applied it: …`.
---@param fn function
---@param is_right function
---@return integer|nil
---@return string|nil message
---@nodiscard
function M.each_failure(fn, is_right) end

return M
