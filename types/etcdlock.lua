---@meta etcdlock
-- Made by `make doc` from the docstrings in lua/: change those.

---Fractions are allowed.
---@alias etcdlock.seconds number

---It grows from holder to holder.
---@alias etcdlock.token integer

---The third result of a call that fails. Programs test the code; the second result is a message for
---people. A call that sends a request to etcd may fail with `unavailable`, `unauthenticated`,
---`denied`, `no_space`, `invalid`, `conflict`, `protocol`, `nomem`, `closed`, `forked`, `context`
---and `premature`. This reference calls them request errors.
---@alias etcdlock.code
---| "timeout" # the timeout passed before the lock was free, or before the event for which the call waits
---| "locked" # a try found that another owner holds the lock
---| "deadlock" # the wait would never end, because an owner in this process holds the lock
---| "not_held" # the hold was released before; from `break_lock`: no entry with the given token holds the lock
---| "lost" # the hold, or the key of the waiter, was lost
---| "unread" # the last read of the key under this hold failed, so it is not known what a write would replace: read the key again
---| "cancelled" # `pending:cancel()` has cancelled the wait
---| "closed" # the client was closed
---| "unavailable" # etcd is unreachable, or did not answer in time; for a write also: etcd may have applied it
---| "unauthenticated" # etcd requires a user, a client certificate, or a valid password or token
---| "denied" # the user lacks the permission, or etcd requires a client certificate
---| "no_space" # etcd's database is full, and the call has changed nothing
---| "invalid" # a value is not allowed, or etcd rejects the request
---| "conflict" # another cluster answers than at first, or the cluster was wiped or restored from a backup: create a new client
---| "context" # this place in nginx or in an event loop does not allow a wait
---| "premature" # in nginx: the worker is exiting, and its timers can no longer take a lock or wait for one
---| "forked" # this process is a forked child, and the client belongs to its parent
---| "protocol" # the server does not speak the API of etcd 3
---| "nomem" # out of memory, threads or descriptors

---The reason for which a hold was lost, as `lock:on_lost` and `lock:wait_lost` report it.
---@alias etcdlock.reason
---| "expired" # the lease was not proven alive in time: etcd was unreachable, or this process stood still
---| "revoked" # the lease was revoked. The loss may also be reported as `deleted`, because etcd deletes the lease's keys
---| "deleted" # the key was deleted
---| "replaced" # another client overwrote the key and detached it from the lease. Such a key blocks nobody
---| "cluster_changed" # another cluster answers, or the same cluster was wiped or restored from a backup
---| "max_hold" # the time of `max_hold`, or of `lock:expire`, is over

---The options of `etcdlock.connect`. If an option is missing whose default is an `ETCDCTL_`
---variable, the client uses the value of that variable.
---@class (exact) etcdlock.ConnectOptions
---@field endpoints? string|string[] 1 to 32 addresses of etcd members: a list, or one string with commas. An address is `host:port`, `http://host:port`, `https://host:port` or `unix:PATH`. An IPv6 address is in brackets, as in `[2001:db8::1]:2379` or `[fe80::1%eth0]:2379`. Without a scheme, the client uses TLS if any option of TLS is given (default: `ETCDCTL_ENDPOINTS` or `127.0.0.1:2379`)
---@field ttl? etcdlock.seconds TTL of the client's lease, 2 to 300. If the client crashes, etcd deletes its keys after that time. It should be at least four times what an answer of etcd takes: otherwise a lost packet may end a hold. If it is less than about twice that, no hold can be proven, and lock calls fail with `unavailable` and a message that gives both times (default: 10)
---@field lock_delay? etcdlock.seconds time, 0 to 300, for which locks stay taken after the TTL if their holder crashes. After an `unlock` a lock is free at once (default: 0)
---@field timeout? etcdlock.seconds default of the option `timeout` of a lock call; `math.huge`: no limit (default: no limit; in nginx 5)
---@field prefix? string text in front of every lock name. Messages, the log and metrics show [full names](README.md#terms), with the prefix (default: none)
---@field cacert? string file with the CA certificates that the client trusts (default: `ETCDCTL_CACERT` or this system's CAs)
---@field cert? string file with the client certificate (default: `ETCDCTL_CERT`)
---@field key? string file with the private key of `cert` (default: `ETCDCTL_KEY`)
---@field cacert_pem? string PEM text, instead of the file `cacert`
---@field cert_pem? string PEM text, instead of the file `cert`
---@field key_pem? string PEM text, instead of the file `key`
---@field server_name? string host name that etcd's certificate must contain (default: host of the endpoint)
---@field insecure_transport? boolean `false`: endpoints without a scheme use TLS. The variable is `true` or `false`, in any spelling of Go's `ParseBool` (default: `ETCDCTL_INSECURE_TRANSPORT`)
---@field user? string user name, for an etcd with authentication. The variable may also be `name:password`. The client renews the user's auth token itself (default: `ETCDCTL_USER`)
---@field password? string password of `user` (default: `ETCDCTL_PASSWORD`)
---@field token? string auth token, instead of `user` and `password`. The client does not renew it (default: none)
---@field allow_plaintext_auth? boolean `true`: the client may send a password or token in plain text to another machine; otherwise `connect` fails with `invalid` (default: false)
---@field handoff? integer|false number of holds in a row, 1 to 1000000, for which owners of this client may [hand a lock off](#handoff) to each other; 1 or `false`: never (default: 32)
---@field handoff_time? etcdlock.seconds time after the grant, 0 to 60, after which no hold begins by handoff (default: 0.05)
---@field fail_fast? boolean `true`: while etcd is known to be unreachable, every call fails with `unavailable` at once, also a call that already waits. The client learns of the outage when a first call fails. A read in the background tells when etcd answers again (default: false)
---@field env? boolean `false`: the client ignores the environment variables (default: true)
---@field loop? string event loop to which waiting calls yield. `"luv"`, `"copas"`: needed only if the client cannot detect that this loop runs. `"none"`: waiting calls always block (default: detected)
---@field socket_dir? string in nginx: directory in which a worker creates the socket that wakes its nginx requests. The worker deletes the file at once, but must be able to write there (default: `TMPDIR` or `/tmp`)
---@field log? fun(event: table) function that is called with each [event](observability.md#the-log) (default: standard error: lost locks and the first leaked one)
---@field log_rate? integer number of events of each kind per second, 0 or more, that are passed to `log`. The client counts the further events and logs their number (default: 100)
---@field metrics? true|string[]|fun(name: string, mode: etcdlock.mode): string? how locks are [labelled](observability.md#metrics) in `client:metrics`. Without it, the page lacks the metrics with the label `lock` (default: none)

---The options of a call that takes a lock.
---@class (exact) etcdlock.LockOptions
---@field timeout? etcdlock.seconds time to wait, 0 or more; 0: try once, which takes up to 2 s if etcd does not answer; `math.huge`: no limit. With a limit, the call waits that long even if etcd is unreachable. Without a limit, it fails with `unavailable` if etcd has never answered this client: after 5 s if it is known by then why no endpoint can be reached (connections are refused, for example), otherwise as soon as that is known, at the latest after 30 s (default: that of `connect`)
---@field max_hold? etcdlock.seconds time after the grant, more than 0, at which the hold ends by itself. The next waiter then gets the lock, even if the holder still works (default: no limit)
---@field linger? etcdlock.seconds time to keep the lock for this client after each last `unlock`, up to 86400. Until then, the client takes the lock again with the same token and without a request. If another client wants the lock, or this client wants it in another mode, the client deletes the key as soon as it is not held: normally at once, at the latest after a third of the TTL. A lingering lock costs a read every third of the TTL. Not for a client with a `lock_delay` (default: none)
---@field owner? any value that identifies the owner of the hold within this client. Calls with the same owner get the same hold, but each call for a permit of a semaphore gets another permit (default: the running coroutine)
---@field value? string text of up to 4096 bytes that `client:queue` shows to all clients (default: none)

---The state of a member that `client:status` returns. If the member has not answered within 2 s,
---only `endpoint`, `transport`, `message` and `code` are set. The client may then need one more
---second to find the cause.
---@class (exact) etcdlock.Member
---@field endpoint string `host:port`, or `unix:` and the path
---@field transport string `tls`; `local`: plain text that does not leave this machine; `open`: plain text that others on the network can read and change
---@field version? string version of etcd
---@field id? string member ID in hex
---@field leader_id? string member ID of the leader; missing if the member knows no leader
---@field is_leader? boolean true if the member leads the cluster
---@field is_learner? boolean true if the member has no vote
---@field db_size? integer bytes of its database file
---@field db_in_use? integer bytes of the file that are in use
---@field problems? string[] problems that etcd reports, in etcd's words: alarms, `no leader`
---@field seconds? etcdlock.seconds time until the answer came, including the time to connect
---@field message? string why the member did not answer
---@field code? etcdlock.code why the member did not answer

---The counters that `client:stats` returns, since `connect`.
---@class (exact) etcdlock.Stats
---@field enqueues integer requests that create a key in a queue
---@field tries integer requests that try to take a lock without a wait
---@field looks integer requests that read a queue
---@field deletes integer requests that delete a key
---@field lease_checks integer requests that check that the lease is alive
---@field keepalives integer keepalives of leases
---@field grants integer requests that create a lease
---@field revokes integer requests that revoke a lease
---@field audits integer requests that list the keys of a lease, to find keys that were created late
---@field watches integer watches that were created
---@field calls integer requests of `put`, `get`, `queue` and the like
---@field batched integer requests that left in the round trip of another request, because earlier requests were in flight when these were made
---@field rpcs integer round trips to etcd: the sum of the requests above, minus `batched`
---@field authentications integer logins that have ended, also those that failed
---@field authentication_ms integer total milliseconds of these logins
---@field acquired integer locks that were acquired
---@field lost integer locks that were lost
---@field leaked integer locks that leaked: garbage-collected while they were held
---@field failed_attempts integer requests that failed; each retry counts
---@field held integer locks that are held now
---@field waiting integer calls that wait for a lock now

---The options of `client:metrics`.
---@class (exact) etcdlock.MetricsOptions
---@field labels? table<string, string> labels for all values of the page, for example to tell several clients apart

---An entry of `client:queue`. The fields that describe the client (`host`, `pid`, `since`, `owner`,
---`lock_delay`) are missing for a candidate of an election, and if another kind of client wrote the
---key.
---
---A client has one entry for each mode, however many of its owners wait. It has several entries for
---readers that do not share a key, up to `n` for a semaphore, and one for each multi-lock and each
---candidate.
---@class (exact) etcdlock.Entry
---@field held? boolean true: the entry holds the lock; false: the entry waits; nil: unknown. It is unknown only for a multi-lock that is first in this queue, if the queues of its other names cannot be read
---@field token etcdlock.token fencing token
---@field lease string lease ID in hex
---@field mode etcdlock.mode mode of the lock; `leader` for each candidate of an election
---@field permits? integer `n` of the semaphore, as this client uses it
---@field key string key in etcd
---@field host? string host name of the client's machine
---@field pid? integer process ID of the client
---@field since? integer time at which the client asked for the lock
---@field owner? string|number the option `owner`, if it is a string or a number
---@field lock_delay? etcdlock.seconds the option `lock_delay`
---@field value? string the option `value`; for a candidate of an election, the value of the candidate; if another kind of client wrote the key, the value of the key
---@field names? string[] names of a multi-lock. While the multi-lock holds, all its entries have this field; while it waits, only the entry in the queue of its first name

---A queue of `client:queues`.
---@class (exact) etcdlock.Queue
---@field name string name of the lock, without the client's prefix
---@field entries etcdlock.Entry[] entries, the oldest first, as `client:queue` returns them
---@field other_keys integer number of keys below the name that are not entries. Many such keys slow down each request for the lock
---@field more? integer number of younger keys of entries that were not read, because the queue has more than `limit`; missing if all were read

---The options of `client:queues`, to read many queues in pages.
---@class (exact) etcdlock.QueuesOptions
---@field limit? integer largest number of entries of a page, 1 or more. A page has only whole queues; if the first queue has more entries, the page has the oldest of them
---@field after? string the page begins after this name

---A run of `client:runs`: the last successful run of a job.
---@class (exact) etcdlock.Run
---@field name string name of the lock, without the client's prefix
---@field started integer time at which `client:once` was called, or etcdlock started, before the wait for the lock. It decides to which period the run belongs
---@field ended integer time at which the run ended. etcdlock 0.2.0 has not recorded it: then `started`
---@field seconds? etcdlock.seconds how long the run took; missing if etcdlock 0.2.0 has recorded it
---@field host string host name of the machine that has recorded the run. All times are by its clock
---@field pid integer process ID of the client

---The kinds of lock that `lock:mode` returns.
---@alias etcdlock.mode
---| "lock" # a lock of `client:lock`
---| "read" # a read lock, or a write lock after `lock:downgrade`
---| "write" # a write lock
---| "permit" # a permit of a semaphore
---| "multi" # a lock of several names
---| "leader" # the lock of an election's leader

---@class etcdlock.Client
local client = {}

---Takes a lock, and waits until it is free. Waiters get the lock in the order in which they queued
---in etcd. If the owner holds the lock already, the call returns the same lock object with `count`
---+ 1, and sends no request; the owner has to unlock as often.
---Fails with timeout, locked, deadlock, lost, or a request error: `timeout` if the lock was not
---free within the timeout; `locked` if the timeout is 0 and the lock is taken; `deadlock`, at once,
---if the wait would never end; `lost` if the key of the waiter was deleted.
---@param name string 1 to 512 bytes with the prefix, without NUL, and without one of the [endings that are refused](migration.md#mixed-operation)
---@param opts? etcdlock.LockOptions
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:lock(name, opts) end

---Takes a lock if it is free, and does not wait for other owners. If the lock is taken, the call
---writes nothing to etcd. One exception: if keys below the name change so fast that reads cannot
---tell whether the lock is held, the call creates a key in the queue, and then deletes this key.
---Fails with locked, deadlock, lost, or a request error: `locked` only if etcd or this client knows
---that another owner holds the lock; `unavailable` if etcd has not answered within 2 s; `deadlock`
---if a wait would never end, for example if the owner of a read hold asks for the write lock;
---`lost` if the key that the call created was deleted during the call.
---@param name string
---@param opts? etcdlock.LockOptions `timeout` is ignored
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:try_lock(name, opts) end

---Takes a lock, calls `fn` with the lock, and releases the lock when `fn` returns or raises an
---error. The call never runs `fn` without the lock. It also releases the lock if a debug hook
---raises an error [in any instruction](production.md#fork-ctrl-c-exit).
---
---As with `pcall`, `fn` succeeds whenever it returns: if `fn` ends with `return nil, "no stock"`,
---the call returns `true, nil, "no stock"`. So check the results of `fn` as well: `local ok, sold,
---why = client:with_lock("stock", sell)`, then `if ok and not sold`.
---
---`os.exit` within `fn` ends the process at once, mostly [without a
---release](production.md#fork-ctrl-c-exit).
---
---If the lock was lost while `fn` ran (`lost`), if `fn` unlocked it (`not_held`), or if it cannot
---be released (`denied`, `closed`, …), the call returns nil, message, code, **true**, results of
---`fn`: `fn` has run, so do not repeat the work blindly. If only etcd's confirmation of the release
---is missing, the call succeeds.
---Raises an error of `fn`, the same object.
---Fails as client:lock, not_held: followed by true and the results if `fn` has run.
---@param name string
---@param opts? etcdlock.LockOptions
---@param fn fun(lock: etcdlock.Lock): any... called with the lock
---@overload fun(self: etcdlock.Client, name: string, fn: fun(lock: etcdlock.Lock): any...): true|nil, any, ...
---@return true|nil
---@return any ... what `fn` has returned; or a message and a code
---@nodiscard
function client:with_lock(name, opts, fn) end

---Starts to take a lock and returns at once, for an event loop of your own. The owner is the
---coroutine that calls, so all callbacks that run in one coroutine are the same owner. If an owner
---asks twice for a lock before it has got the lock, the second call waits until the hold of the
---first one ends. So give each callback an `owner` of its own.
---Fails with deadlock, or a request error: if the call could not start.
---@param name string
---@param opts? etcdlock.LockOptions
---@return etcdlock.Pending|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:lock_async(name, opts) end

---Takes a read lock: like `client:lock`, but several readers may hold it at a time. A reader waits
---for the writers that queued before it.
---Fails as client:lock.
---@param name string
---@param opts? etcdlock.LockOptions
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:read_lock(name, opts) end

---As `client:try_lock`, for a read lock.
---Fails as client:try_lock.
---@param name string
---@param opts? etcdlock.LockOptions
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:try_read_lock(name, opts) end

---As `client:with_lock`, for a read lock.
---Raises an error of `fn`, the same object.
---Fails as client:with_lock.
---@param name string
---@param opts? etcdlock.LockOptions
---@param fn fun(lock: etcdlock.Lock): any... called with the lock
---@overload fun(self: etcdlock.Client, name: string, fn: fun(lock: etcdlock.Lock): any...): true|nil, any, ...
---@return true|nil
---@return any ... what `fn` has returned; or a message and a code
---@nodiscard
function client:with_read_lock(name, opts, fn) end

---As `client:lock_async`, for a read lock.
---Fails as client:lock_async.
---@param name string
---@param opts? etcdlock.LockOptions
---@return etcdlock.Pending|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:read_lock_async(name, opts) end

---Takes a write lock: like `client:lock`. A writer waits for all readers and writers that queued
---before it. A lock of `client:lock` counts as a writer of its name, too. If the owner of a write
---hold asks for a read lock, it gets the same hold, with `count` + 1. If the owner of a read hold
---asks for a write lock, the call fails with `deadlock`.
---Fails as client:lock.
---@param name string
---@param opts? etcdlock.LockOptions
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:write_lock(name, opts) end

---As `client:try_lock`, for a write lock.
---Fails as client:try_lock.
---@param name string
---@param opts? etcdlock.LockOptions
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:try_write_lock(name, opts) end

---As `client:with_lock`, for a write lock.
---Raises an error of `fn`, the same object.
---Fails as client:with_lock.
---@param name string
---@param opts? etcdlock.LockOptions
---@param fn fun(lock: etcdlock.Lock): any... called with the lock
---@overload fun(self: etcdlock.Client, name: string, fn: fun(lock: etcdlock.Lock): any...): true|nil, any, ...
---@return true|nil
---@return any ... what `fn` has returned; or a message and a code
---@nodiscard
function client:with_write_lock(name, opts, fn) end

---As `client:lock_async`, for a write lock.
---Fails as client:lock_async.
---@param name string
---@param opts? etcdlock.LockOptions
---@return etcdlock.Pending|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:write_lock_async(name, opts) end

---Takes the locks of several names in one transaction: one hold with one token. In the queue of
---each name, the call waits for all older locks, readers and writers. The keys of one call have the
---same create_revision in all queues, so two such calls never wait for each other. `unlock`
---releases all names. The hold is lost if any of its keys is lost, and a guarded write is applied
---only while all keys exist. If the owner then asks for one of the names, it gets the same hold,
---with `count` + 1.
---Fails as client:lock: `deadlock`, at once, if the owner holds some of the names already, but has
---no hold that covers all of them.
---@param names string[] 1 to 60
---@param opts? etcdlock.LockOptions without `linger`
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:multi_lock(names, opts) end

---As `client:try_lock`, for several names. If one of them is taken, the call takes none.
---Fails as client:try_lock.
---@param names string[] 1 to 60
---@param opts? etcdlock.LockOptions without `linger`
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:try_multi_lock(names, opts) end

---As `client:with_lock`, for several names.
---Raises an error of `fn`, the same object.
---Fails as client:with_lock.
---@param names string[] 1 to 60
---@param opts? etcdlock.LockOptions without `linger`
---@param fn fun(lock: etcdlock.Lock): any... called with the lock
---@overload fun(self: etcdlock.Client, names: string[], fn: fun(lock: etcdlock.Lock): any...): true|nil, any, ...
---@return true|nil
---@return any ... what `fn` has returned; or a message and a code
---@nodiscard
function client:with_multi_lock(names, opts, fn) end

---As `client:lock_async`, for several names.
---Fails as client:lock_async.
---@param names string[] 1 to 60
---@param opts? etcdlock.LockOptions without `linger`
---@return etcdlock.Pending|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:multi_lock_async(names, opts) end

---Creates a semaphore: up to `n` permits of the name are held at a time. Waiters get permits in the
---order in which they queued. Sends no request. A semaphore and a lock of the same name are
---independent of each other. If programs use different `n` (see [Changing n](#changing-n)), up to
---the largest `n` permits are held, and waiters do not always get them in order.
---Fails with invalid.
---@param name string
---@param n integer number of permits, 1 to 1000
---@return etcdlock.Semaphore|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:semaphore(name, n) end

---Creates an election: the first candidate in the queue of the name leads and publishes a value,
---such as its address. Any client can read or observe the leader. Sends no request.
---Fails with invalid.
---@param name string
---@return etcdlock.Election|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:election(name) end

---Returns a function. A call of this function takes the lock, passes its arguments to `fn`, and
---releases the lock when `fn` ends.
---@param name string
---@param opts? etcdlock.LockOptions
---@param fn function
---@overload fun(self: etcdlock.Client, name: string, fn: function): function
---@return function
function client:wrap(name, opts, fn) end

---Asks each member of the option `endpoints` for its state. Each member answers for itself only. To
---test whether a majority of the members answers, call `client:ping`.
---Fails with closed, forked, context, premature.
---@return etcdlock.Member[]|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:status() end

---Returns counters since `connect`. Sends no request.
---Fails with closed: only in a finalizer that runs after the client was collected.
---@return etcdlock.Stats|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:stats() end

---Returns a page with the client's [metrics](observability.md#metrics) in Prometheus' text format.
---Sends no request.
---Raises for a label that Prometheus does not allow.
---Fails with forked.
---@param opts? etcdlock.MetricsOptions
---@return string|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:metrics(opts) end

---Tells whether the client has a session that is known to be alive. The first use of the client
---creates a session. After the end of a session, the next use creates another one. Sends no
---request.
---@return boolean
---@return etcdlock.seconds|etcdlock.code
function client:alive() end

---Reads a key through a majority of etcd's members. The call succeeds also if the user has no
---permission for the key, because etcd checks permissions after the majority has answered.
---Fails with a request error.
---@return etcdlock.seconds|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:ping() end

---Reads a key in etcd, without a lock. A majority of etcd's members takes part, so the value is at
---least as new as the call. It may change at once: a value on which a write depends is read under
---the lock, with `lock:get`. While etcd is away, the call fails after 5 s, with the option
---`fail_fast` at once.
---Fails with a request error.
---@param key string key in etcd; the client's prefix is not added
---@param default? any what `get` returns if the key does not exist
---@return string|any|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:get(key, default) end

---Makes the client use `password` at its next login. Call it before you change the password of its
---user in etcd, or within `ttl` / 2 after that: otherwise the client loses its holds, because etcd
---ends the user's tokens when the password changes. Sends no request.
---Fails with invalid, nomem, closed, forked: `invalid` if the client has no user, or `password` is
---empty or contains NUL.
---@param password string
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:set_password(password) end

---Returns the lease ID of the session.
---@return string|nil
function client:lease() end

---Releases all locks, revokes the lease and stops the I/O thread. Waits at most about 0.5 s for
---etcd. All later calls of the client and its locks fail with `closed`. Only `close` may be
---repeated.
---
---In nginx only the nginx request waits, not the worker. In a phase that does not allow a wait,
---`close` returns at once, and the client closes in the background. If a program drops a client
---without `close`, the client closes in the background when Lua collects it.
---
---If a hold was lost and its `lock_delay` is not over, `close` does not revoke the lease, and the
---lease expires in etcd. If a member does not answer, the I/O thread and one socket remain until
---the attempt to connect ends: for at most 10 s.
---@return true
function client:close() end

---Returns the entries in the queue of a lock, the oldest first: the entries that hold the lock and
---the entries that wait for it. [User data](README.md#terms) below the name is not listed.
---Fails with a request error.
---@param name string
---@return etcdlock.Entry[]|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:queue(name) end

---Ends the hold with this token: deletes the key of the hold, so that the next waiter gets the
---lock. For a multi-lock, the call deletes the keys of all names. If it is unknown whether a
---multi-lock holds (its `held` in `client:queue` is nil), the call deletes only the key below this
---name; this ends the hold, or the wait, for all names. The call never deletes user data. The
---client of the hold learns of it from etcd, normally a round trip later. Until then its hold still
---counts as held and may pass to another owner of that client. If a proxy holds messages back, the
---client learns of it when it reads the key: it reads one of its held keys every third of the TTL.
---Fails with not_held, or a request error: `not_held` if no entry with this token holds the lock;
---`invalid` if the token is not a whole number.
---@param name string
---@param token etcdlock.token token of the entry, from `client:queue`
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:break_lock(name, token) end

---Returns the queues of all locks whose names begin with `prefix`, as they were at one revision.
---The etcd user needs permission to read all keys that begin with the client's prefix and `prefix`;
---otherwise the call fails with `denied`.
---
---Thousands of entries take a moment to read, and in nginx they stop the worker. With `limit` the
---call reads one page, and returns the name after which the next page begins.
---Fails with a request error: also `unavailable` if not all queues can be read within 5 s.
---@param prefix? string
---@param opts? etcdlock.QueuesOptions
---@return etcdlock.Queue[]|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:queues(prefix, opts) end

---Runs `fn` once in each period, on all machines together: takes the lock `name`, and calls `fn`
---with the lock, unless a run in the present period is recorded. Only a run that has succeeded is
---recorded. The option [`--once-per`](command.md#once-per-period) of `etcdlock run` has the same
---lock, record and rules, so a crontab and a service can share a job.
---
---A run succeeds if `fn` returns, whatever it returns. So `fn` must raise an error if its work has
---failed. The call then releases the lock and raises the error again, and the next call runs `fn`
---again.
---
---If another client runs the job, the call waits until that run has ended, and runs `fn` only if
---that run has failed. With `timeout = 0` the call fails with `locked` instead.
---
---If `fn` has run, but the run could not be recorded (`lost`, `denied` and others), the call
---returns nil, message, code, **true**, results of `fn`. If the lock is lost after the run was
---recorded, the call succeeds.
---Raises an error of `fn`, the same object.
---Fails as client:lock, not_held: followed by true and the results if `fn` has run; `invalid` also
---if the record is not valid, or is more than one period ahead of this machine's clock; `denied`
---also if the user may not read and write the record; `not_held` if `fn` unlocked the lock.
---@param name string
---@param period etcdlock.seconds|"ever" length of the period: 1 or more seconds, such as 86400 for a day; `"ever"`: `fn` runs once, and never again
---@param opts? etcdlock.LockOptions `timeout`: if neither the call nor `connect` has one, the wait lasts until the period ends
---@param fn fun(lock: etcdlock.Lock): any... called with the lock
---@overload fun(self: etcdlock.Client, name: string, period: etcdlock.seconds|"ever", fn: fun(lock: etcdlock.Lock): any...): true|false|nil, any, ...
---@return true|false|nil
---@return any ... what `fn` has returned; or a message and a code
---@nodiscard
function client:once(name, period, opts, fn) end

---Returns the last successful run of each job of `client:once` and `etcdlock run --once-per` whose
---name begins with `prefix`, as recorded at one revision. The etcd user needs permission to read
---all keys that begin with the client's prefix and `prefix`; otherwise the call fails with
---`denied`.
---Fails with a request error: also `unavailable` if not all records can be read within 5 s.
---@param prefix? string
---@return etcdlock.Run[]|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function client:runs(prefix) end

---@class etcdlock.Lock
local lock = {}

---Tells whether the lock is held now. Sends no request.
---@return boolean
---@return etcdlock.seconds|etcdlock.code
function lock:held() end

---Returns the seconds for which the hold is valid at least. Sends no request.
---@return etcdlock.seconds
function lock:remaining() end

---Returns the fencing token: the create_revision of the lock's key. A later hold never has a
---smaller token, and a later hold of another client has a larger one. A resource that remembers the
---largest token can refuse a late write of an earlier holder. Owners of one client that [hand the
---lock off](#handoff) to each other have the same token. Several readers, or several permits of a
---semaphore, are held at the same time, so a resource must accept their tokens in any order.
---@return etcdlock.token
function lock:token() end

---Returns the number of `unlock` calls after which the lock is released.
---@return integer
function lock:count() end

---Returns the name of the lock, without the client's prefix.
---@return string
function lock:name() end

---Returns the names of the lock, without the client's prefix.
---@return string[]
function lock:names() end

---Returns the kind of lock.
---@return etcdlock.mode
function lock:mode() end

---Returns the lock's key in etcd.
---@return string
function lock:key() end

---Returns the lease ID of the lock's key.
---@return string
function lock:lease() end

---Decrements the count. If the count is then 0, the call releases the lock: the client deletes the
---lock's key, or hands the key to the next waiter of the same client. The call waits up to 2 s for
---etcd's confirmation. If a wait is impossible, as in some phases of nginx, the call sends the
---request and returns true at once.
---
---At count 0 the lock counts as released from the start of the call, whatever the call returns. The
---call never deletes the key of another client, so it may be repeated. In Lua 5.4, a `local lock
---<close>` is released at the end of its scope. If the lock was released because its nginx request
---ended, the call returns true.
---Fails with not_held, lost, or a request error: `not_held` if the lock was released before the
---call; `lost` if it was lost before the call; `unavailable` if etcd has not confirmed the release
---within 2 s. The release then goes on in the background.
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
function lock:unlock() end

---Gives up the leadership: `unlock` for a leader. If etcd did not answer a request of `campaign` in
---time, etcd may apply that request after `resign`, and so create another key. Observers then
---report this candidate as leader again, with another token, until its client has found and deleted
---that key. While etcd answers, this takes at most about 8 s.
---Raises for a lock that is not a leader's.
---Fails as lock:unlock.
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
function lock:resign() end

---Sets the time at which the hold ends by itself. This time replaces the option `max_hold`.
---Raises for 0 or less, for inf.
---Fails with lost, not_held, closed, forked.
---@param seconds etcdlock.seconds time from now, more than 0
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function lock:expire(seconds) end

---Registers a function that is called once if the lock is lost. The function never runs by itself
---or on another thread, but in a later call of the same client: `held` or `check` of a lost lock,
---any call that takes a lock, or a call that waits (except `unlock`). If the lock is lost already,
---`on_lost` runs the function at once.
---
---Such a call runs the `on_lost` functions of all lost locks. The locks come in the order in which
---their first functions were registered. If a function raises an error, the call runs the remaining
---functions and then raises the first error. In nginx, a call runs only the functions of locks that
---belong to its own nginx request or to no nginx request.
---Fails with not_held: if the lock was released before.
---@param fn fun(lock: etcdlock.Lock, reason: etcdlock.reason) called with the lock and the reason
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
function lock:on_lost(fn) end

---Waits until the lock is lost.
---Fails with timeout, not_held, closed, forked, context, premature: `not_held` if the lock was
---released before the call or during the wait.
---@param timeout? etcdlock.seconds time to wait; nil: no limit
---@return etcdlock.reason|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function lock:wait_lost(timeout) end

---Asks etcd whether the lock is held. `lock:held` tells this without a request.
---Fails with lost, not_held, or a request error.
---@return true|nil
---@return etcdlock.seconds|string|nil message
---@return integer|etcdlock.code|nil code
---@nodiscard
function lock:check() end

---Writes a key in etcd, if the hold is still valid when etcd applies the write. By default, etcd
---allows [1.5 MiB](#guarded-writes).
---Raises for a read hold.
---Fails with lost, not_held, unread, or a request error: after `unavailable`, etcd may have applied
---the write, or may still apply it (see [Guarded writes](#guarded-writes)).
---@param key string key in etcd; the client's prefix is not added
---@param value string
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function lock:put(key, value) end

---Deletes a key in etcd, if the hold is still valid when etcd applies the deletion.
---Raises for a read hold.
---Fails as lock:put.
---@param key string key in etcd; the client's prefix is not added
---@return true|nil
---@return boolean|string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function lock:delete(key) end

---Reads a key in etcd, if the hold is still valid when etcd reads it. After a failed read of a key,
---this hold cannot write that key until a read of it succeeds (`unread`).
---Fails with lost, not_held, or a request error.
---@param key string key in etcd; the client's prefix is not added
---@param default? any what `get` returns if the key does not exist
---@return string|any|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function lock:get(key, default) end

---Applies several operations at once, all or none, if the hold is still valid when etcd applies
---them. A key may be changed only once. By default, etcd allows [128 operations](#guarded-writes).
---Raises for an invalid operation; for a read hold, if an operation writes.
---Fails as lock:put.
---@param list string[][] each operation is `{ "put", key, value }`, `{ "get", key }` or `{ "delete", key }`
---@return (boolean|string)[]|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function lock:txn(list) end

---Changes the leader's value, if this candidate still leads when etcd applies the change. Observers
---report the new value, unless it is the same as before.
---Raises for a lock that is not a leader's.
---Fails with lost, not_held, or a request error: after `lost`, `not_held` and `context` the value
---is unchanged. After `unavailable`, etcd may have applied the change, or may apply it later, but
---never after a later `proclaim` of the same hold, and never after the end of the hold.
---@param value string up to 4096 bytes
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function lock:proclaim(value) end

---Turns a write hold into a read hold, so that other readers may hold the lock at the same time. No
---other writer gets the lock in between. Token and key stay the same. Unless the call fails with
---`invalid`, the lock is a read lock from the start of the call. If the call fails with
---`unavailable`, repeat it, because other readers may still be blocked. An earlier write of unknown
---outcome is never applied after other readers have got the lock.
---Raises for a lock that is not a write lock.
---Fails with lost, not_held, or a request error: `invalid` if the count is above 1, because the
---other users of the hold rely on a write lock.
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function lock:downgrade() end

---@class etcdlock.Pending
local pending = {}

---Returns the outcome, or false if there is none yet. Never blocks.
---Fails as client:lock, cancelled: `cancelled` after `pending:cancel`.
---@return etcdlock.Lock|false|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function pending:step() end

---Cancels the wait. If the lock was granted, but `step` has not returned it yet, `cancel` releases
---the lock. Later calls of `step` fail with `cancelled`. If `step` has returned the outcome
---already, `cancel` does nothing.
---@return boolean
function pending:cancel() end

---Returns true if `step` should be called now, even if the descriptor is not readable. luasocket's
---`select` calls this.
---@return boolean
function pending:dirty() end

---Returns the client's descriptor, which becomes readable when a wait of the client ends. For
---cqueues, and for an event loop of your own.
---@return integer|nil
function pending:pollfd() end

---Returns the client's descriptor for luasocket's `select`. After the client was closed, returns 0,
---because `select` needs a number.
---@return integer
function pending:getfd() end

---Returns the outcome for `copas.receive(pending)`, which yields until there is an outcome.
---Fails as pending:step: as long as there is no outcome, the call returns nil, `timeout`, as copas
---expects.
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function pending:receive() end

---Does nothing. copas calls it to set a timeout, but the timeout of the lock is an option of
---`lock_async`.
---@return nil
function pending:settimeout() end

---Cancels the wait. When a coroutine ends, copas calls `close` of the last object for which the
---coroutine has waited.
---@return nil
function pending:close() end

---Returns the events for which cqueues polls the descriptor.
---@return string
function pending:events() end

---Returns the seconds for which cqueues polls the descriptor. The timeout of the lock has no
---influence on them.
---@return etcdlock.seconds|nil
function pending:timeout() end

---@class etcdlock.Semaphore
local semaphore = {}

---Takes a permit, and waits until one is free. A permit has the methods of a lock, but is not
---reentrant: each call takes another permit, even if the owner has one already.
---
---If this process blocks while it waits, and holds all `n` permits without `max_hold`, the call
---fails with `deadlock` at once. In an event loop and in nginx the call waits, because another
---coroutine may unlock a permit. A coroutine that holds all `n` permits itself then waits for ever,
---unless it gives a `timeout`. One exception: if earlier phases of the same nginx request hold all
---permits, the call fails with `deadlock`.
---Fails as client:lock.
---@param opts? etcdlock.LockOptions without `linger`
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function semaphore:lock(opts) end

---As `client:try_lock`, for a permit.
---Fails as client:try_lock.
---@param opts? etcdlock.LockOptions without `linger`
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function semaphore:try_lock(opts) end

---As `client:with_lock`, for a permit. A `with_lock` inside a `with_lock` of the same semaphore
---takes a second permit.
---Raises an error of `fn`, the same object.
---Fails as client:with_lock.
---@param opts? etcdlock.LockOptions without `linger`
---@param fn fun(lock: etcdlock.Lock): any... called with the permit
---@overload fun(self: etcdlock.Semaphore, fn: fun(lock: etcdlock.Lock): any...): true|nil, any, ...
---@return true|nil
---@return any ... what `fn` has returned; or a message and a code
---@nodiscard
function semaphore:with_lock(opts, fn) end

---As `client:lock_async`, for a permit.
---Fails as client:lock_async.
---@param opts? etcdlock.LockOptions without `linger`
---@return etcdlock.Pending|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function semaphore:lock_async(opts) end

---Returns the number of free permits: `n` minus the number of entries that hold a permit or wait
---for one, but at least 0. Another client may take a free permit before the caller does.
---Fails with a request error.
---@return integer|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function semaphore:available() end

---Returns the name of the semaphore, without the client's prefix.
---@return string
function semaphore:name() end

---Returns `n`, the number of permits given to `client:semaphore`.
---@return integer
function semaphore:permits() end

---@class etcdlock.Election
local election = {}

---Takes part in the election with `value`, and waits until this candidate leads. Returns the
---leadership: a lock that also has `proclaim` and `resign`. It can be lost like any lock.
---
---If the owner leads already with the same value, the call returns the same leadership, with
---`count` + 1. If the owner leads with another value, the call fails with `deadlock`. To change the
---value, use `proclaim`.
---Fails as client:lock.
---@param value string up to 4096 bytes
---@param opts? etcdlock.LockOptions without `linger` and `value`
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function election:campaign(value, opts) end

---As `client:try_lock`, for the leadership.
---Fails as client:try_lock.
---@param value string up to 4096 bytes
---@param opts? etcdlock.LockOptions without `linger` and `value`
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function election:try_campaign(value, opts) end

---As `client:with_lock`, for the leadership.
---Raises an error of `fn`, the same object.
---Fails as client:with_lock.
---@param value string up to 4096 bytes
---@param opts? etcdlock.LockOptions without `linger` and `value`
---@param fn fun(lock: etcdlock.Lock): any... called with the leadership
---@overload fun(self: etcdlock.Election, value: string, fn: fun(lock: etcdlock.Lock): any...): true|nil, any, ...
---@return true|nil
---@return any ... what `fn` has returned; or a message and a code
---@nodiscard
function election:with_leadership(value, opts, fn) end

---As `client:lock_async`, for the leadership.
---Fails as client:lock_async.
---@param value string up to 4096 bytes
---@param opts? etcdlock.LockOptions without `linger` and `value`
---@return etcdlock.Pending|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function election:campaign_async(value, opts) end

---Reads the current leader through a majority of etcd's members, so the result was true at a time
---during the call. If etcd does not answer, the call fails with `unavailable` after 5 s. [User
---data](README.md#terms) below the name is no candidate.
---Fails with a request error.
---@return string|false|nil
---@return string|nil message
---@return etcdlock.token|nil|etcdlock.code code
---@nodiscard
function election:leader() end

---Creates an observer, which reports the current leader, then each change of the leader or its
---value, when nobody leads any more, and when it is unknown who leads. Sends no request.
---
---The call returns four values, as Lua's `for` needs them. Outside a `for`, put the call in
---parentheses, which leaves only the observer, as in `table.insert(list, (election:observe()))`.
---@return etcdlock.Observer
---@return nil
---@return nil
---@return etcdlock.Observer
function election:observe() end

---Returns the name of the election, without the client's prefix.
---@return string
function election:name() end

---@class etcdlock.Observer
---@overload fun(): string|false|nil, string?, etcdlock.token?, etcdlock.seconds?
local observer = {}

---Waits until the leader or its value has changed, and returns the value, key and token of the
---leader. If nobody leads any more, returns `false`. The first call reports the current leader, or
---waits until there is a leader. Several coroutines may call one observer. Each change is returned
---to one of them.
---
---If etcd has not confirmed the last report for the client's `ttl`, it is unknown who leads. Then
---the call returns the last report once more, with its age as the fourth result. When etcd answers
---again, the call returns the current leader, or `false`, without an age, also if nothing has
---changed.
---Fails with timeout, unavailable, closed, denied, conflict, forked, context, premature: after
---`timeout` and `unavailable` (etcd is unreachable) the program may call `next` again.
---@param timeout? etcdlock.seconds time to wait. 0: do not wait for a change; the call takes up to 0.25 s if it must ask etcd whether there was one. nil: no limit; the call waits also while etcd is unreachable. But if etcd has never answered this client, it fails with `unavailable` as `client:lock` does
---@return string|false|nil
---@return string|nil message
---@return etcdlock.token|etcdlock.code|nil code
---@return etcdlock.seconds|nil
---@nodiscard
function observer:next(timeout) end

---Returns the age of what the observer knows: the time since etcd has last confirmed the leader, or
---that nobody leads. The age grows while etcd does not answer, and while no call of `next` waits.
---Otherwise it is at most `ttl` / 3 (10 s if that is less) and the time of an answer. Sends no
---request.
---@return etcdlock.seconds|nil
function observer:age() end

---Closes the observer: every later call fails with `closed`, also a call that waits now. `close`
---may be repeated. Lua 5.4 closes the observer at the end of `for … in election:observe() do`,
---also after `break`. In other versions of Lua the observer is closed when Lua collects it.
---@return true
function observer:close() end

---@class etcdlock
local M = { _VERSION = "" }

---Creates a client of one etcd cluster. Sends no request: the client connects on first use.
---
---Connect once per process, when a module is loaded, and share the client, because each client has
---an I/O thread, a connection to etcd and a lease. The eighth live client of a process reports the
---event [`many_clients`](observability.md#the-log).
---Fails with invalid, nomem, forked, context: `invalid` if the value of an option or variable is
---not allowed; `nomem` if memory, threads or descriptors do not suffice; `forked` in a process that
---was forked after its parent had connected; `context` in nginx's `init_by_lua`.
---@param opts? etcdlock.ConnectOptions
---@return etcdlock.Client|nil
---@return string|nil message
---@return etcdlock.code|nil code
---@nodiscard
function M.connect(opts) end

---Runs a function while the default client holds a lock. All calls in a process share the default
---client, which the first call creates with the defaults of `connect`.
---Raises an error of `fn`, the same object.
---Fails as client:with_lock, etcdlock.connect.
---@param name string name of the lock
---@param opts? etcdlock.LockOptions
---@param fn fun(lock: etcdlock.Lock): any... called with the lock
---@overload fun(name: string, fn: fun(lock: etcdlock.Lock): any...): true|nil, any, ...
---@return true|nil
---@return any ... what `fn` has returned; or a message and a code
---@nodiscard
function M.with_lock(name, opts, fn) end

---Joins several results of `client:metrics` into one page. Values with the same name and labels are
---added up. Of ages the largest counts, of the times of sessions and of `etcdlock_leader_known` the
---smallest.
---@param texts string[]
---@return string
function M.join_metrics(texts) end

---Returns the stack traceback of the last error that left a function run by a `with_lock` call.
---etcdlock records this traceback before Lua 5.4, and in coroutines, because the stack no longer
---exists when the caller catches the error. In Lua 5.4 outside coroutines the stack still exists,
---so nothing is recorded.
---@return string|nil
function M.traceback() end

return M
