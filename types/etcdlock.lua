---@meta etcdlock
-- Made by `make doc` from the docstrings in lua/: change those.

---Fractions are allowed.
---@alias etcdlock.seconds number

---It grows from holder to holder.
---@alias etcdlock.token integer

---What the third result of a call that fails may be: for programs. The second is a message, for
---people. Any call that asks etcd may answer `unavailable`, `unauthenticated`, `denied`,
---`no_space`, `invalid`, `conflict`, `protocol`, `nomem`, `closed`, `forked`, `context` and
---`premature`: these are "a request's".
---@alias etcdlock.code
---| "timeout" # the lock was not free in time
---| "locked" # a try found it taken
---| "deadlock" # this wait could never end: another owner in this program holds it
---| "not_held" # it is released already; or not that token's
---| "lost" # it was ours, or our entry in the queue was, and is no longer
---| "cancelled" # the wait was given up by `pending:cancel()`
---| "closed" # the client was closed
---| "unavailable" # etcd can't be reached, or did not answer in time
---| "unauthenticated" # etcd wants a user, another one, or a client certificate
---| "denied" # this user may not do that, or etcd wants a client certificate
---| "no_space" # etcd's database is full
---| "invalid" # a value that can't work, or etcd rejects the request
---| "conflict" # another cluster answers than the one we began with: connect anew
---| "context" # waiting is not possible in this place of nginx or of an event loop
---| "premature" # in nginx: the worker exits, and its timers take no lock and wait for none any more
---| "forked" # the client belongs to the parent process
---| "protocol" # the other end does not speak etcd's v3 API
---| "nomem" # no memory, or no room for threads or descriptors

---What `lock:on_lost` and `lock:wait_lost` tell.
---@alias etcdlock.reason
---| "expired" # no proof in time that the session's lease lives: etcd out of reach, or we stood still
---| "revoked" # the lease was revoked; it may be seen as `deleted`, as its keys go with it
---| "deleted" # the key was deleted
---| "replaced" # somebody overwrote our key and took it off our lease, so that it blocks nobody
---| "cluster_changed" # another cluster answers, or an earlier state of ours: wiped, or restored from a backup
---| "max_hold" # that time has passed

---The options of `etcdlock.connect`.
---@class (exact) etcdlock.ConnectOptions
---@field endpoints? string|string[] the members: a list, or one string with commas; each `host:port`, `http://…`, `https://…` or `unix:PATH`; an IPv6 address in brackets, as in `[2001:db8::1]:2379` or `[fe80::1%eth0]:2379`. Without a scheme it is TLS if any option of TLS is given (default: `ETCDCTL_ENDPOINTS` or `127.0.0.1:2379`)
---@field ttl? etcdlock.seconds how long etcd keeps our locks without hearing from us, 2 to 300 (default: 10)
---@field timeout? etcdlock.seconds how long lock calls wait (default: no limit)
---@field prefix? string put in front of every lock name (default: none)
---@field cacert? string a file: whom to trust (default: `ETCDCTL_CACERT` or this system's CAs)
---@field cert? string a file: who we are (default: `ETCDCTL_CERT`)
---@field key? string a file: the key of that (default: `ETCDCTL_KEY`)
---@field cacert_pem? string the text instead of `cacert`
---@field cert_pem? string the text instead of `cert`
---@field key_pem? string the text instead of `key`
---@field server_name? string the name to be found in etcd's certificate (default: that of the endpoint)
---@field insecure_transport? boolean `false`: endpoints without a scheme are TLS. The variable is `true` or `false`, in one of Go's spellings (default: `ETCDCTL_INSECURE_TRANSPORT`)
---@field user? string for an etcd with authentication; the variable may also be `name:password`. Its tokens are renewed by themselves (default: `ETCDCTL_USER`)
---@field password? string the user's (default: `ETCDCTL_PASSWORD`)
---@field token? string a ready one instead, which nobody renews (default: none)
---@field allow_plaintext_auth? boolean `true` lets a password or token pass in plain text to other machines (default: refused)
---@field handoff? integer|false how many holds in a row the owners of this client may hand a lock on to each other while others wait; `false`: never (default: 32)
---@field handoff_time? etcdlock.seconds and for how long (default: 0.05)
---@field fail_fast? boolean `true`: while etcd is known to be out of reach, calls answer `unavailable` at once, those that wait included, instead of waiting their time out. Whoever comes first finds out; a read in the background finds out that it is back (default: false)
---@field env? boolean `false`: the environment is not looked at (default: true)
---@field loop? string `"luv"` or `"copas"`: it runs and is to be yielded to; `"none"`: block always (default: found)
---@field socket_dir? string in nginx: the directory in which the socket is made by which its requests are woken. It is unlinked at once, but for that moment each worker must be able to write there (default: `TMPDIR` or `/tmp`)
---@field log? fun(event: table) called with an [event](observability.md#the-log): a lock was waited for, taken, released, lost, [released because nobody kept it](#taking-a-lock) … (default: of a lock that nobody kept: to standard error once)
---@field log_rate? integer so many events of each kind a second are told to `log`, and the number of the others; 0 or more (default: 100)
---@field metrics? true|string[]|fun(name: string, mode: etcdlock.mode): string? `true`, patterns of names (`"stock/*"`), or a function from a name and a mode to a label: by what [metrics](observability.md#metrics) tells apart how long locks are waited for and held (default: none)

---The options of a call that takes a lock.
---@class (exact) etcdlock.LockOptions
---@field timeout? etcdlock.seconds how long to wait, in full, whatever stands in the way; 0 tries once. None waits as long as it takes, also through an outage; only where etcd has never answered this client it gives up after 5 s, with `unavailable`: a wrong address is told, not waited for (default: that of `connect`)
---@field max_hold? etcdlock.seconds the lock ends by itself after so many, whatever its holder does (default: none)
---@field linger? etcdlock.seconds seconds to keep the key after the last `unlock`, up to 86400, unless another client queues for the name, or this one asks for it in another mode. Until then any call of this client for the same kind of lock gets it with the same token and without a request, over 50,000 times a second. For a lock that one process takes again and again. Not together with `lock_delay` (default: none)
---@field lock_delay? etcdlock.seconds seconds, up to 300, for which the lock stays taken after the TTL if its holder crashes; after an `unlock` it is free at once (default: 0)
---@field owner? any who asks (default: the running coroutine)
---@field value? string of up to 4096 bytes, which `queue` shows to others (default: none)

---What `client:stats` tells.
---@class (exact) etcdlock.Stats
---@field enqueues integer requests that ask for a place in a queue
---@field tries integer requests of tries
---@field looks integer requests that look who is there
---@field deletes integer requests that release
---@field probes integer requests that ask whether the lease lives
---@field keepalives integer requests that keep it alive
---@field grants integer requests for a lease
---@field revokes integer requests that end one
---@field audits integer requests that look for keys that came late
---@field watches integer watches that were begun
---@field calls integer requests of `put`, `get`, `queue` and their like
---@field batched integer how many of them were asked in the round trip of another one, because they came while others were out
---@field rpcs integer the round trips that makes
---@field acquired integer locks that were taken
---@field lost integer locks that were lost
---@field leaked integer locks that were dropped while they were held
---@field failed_attempts integer requests to etcd that have failed, each try
---@field held integer locks that are held now
---@field waiting integer calls that wait now

---The options of `client:metrics`.
---@class (exact) etcdlock.MetricsOptions
---@field labels? table<string, string> which all of it gets: they tell this client from others

---An entry of `client:queue`. The fields from `host` on are missing if another kind of client wrote
---the key. A client has one entry for each mode, however many of its owners wait. It has several
---for readers that do not share a key, and up to `n` for a semaphore.
---@class (exact) etcdlock.Entry
---@field held? boolean does it hold, or wait? Missing if it is unknown: for a multi-lock that is the first here, if the queues of its other names can't be read
---@field token etcdlock.token its fencing token
---@field lease string in hex
---@field mode etcdlock.mode `multi`, too, of who stands in an election and uses etcdlock
---@field key string in etcd
---@field host? string the name of its machine
---@field pid? integer its process there
---@field since? integer when it asked
---@field owner? string|number what the option `owner` says
---@field lock_delay? etcdlock.seconds what the option `lock_delay` says
---@field value? string what the option `value` says; of who stands in an election, what he says
---@field names? string[] of who wants several: of who holds them under each, of who waits under the first

---What stands in one queue of `client:queues`.
---@class (exact) etcdlock.Line
---@field name string without the prefix of the client
---@field places etcdlock.Entry[] as those of `client:queue`
---@field other_keys integer how many keys below the name are no entries; many slow each request

---One member of `client:status`. Of who hasn't answered within 2 s there are `endpoint`,
---`transport`, `message` and `code`; to find out why may take a second more.
---@class (exact) etcdlock.Member
---@field endpoint string `host:port`, or `unix:` and the path
---@field transport string how it was asked: `tls`; in plain text, `local` if that doesn't leave this machine, and `open` if all on the way can read and change it
---@field version? string of etcd
---@field id? string in hex
---@field leader_id? string missing where it knows of no leader
---@field is_leader? boolean does it lead?
---@field is_learner? boolean has it no vote?
---@field db_size? integer bytes of its file
---@field db_in_use? integer bytes of that which are in use
---@field problems? string[] etcd's texts: alarms, `no leader`
---@field seconds? etcdlock.seconds that the answer took, connecting included
---@field message? string why there was none
---@field code? etcdlock.code of that

---What `lock:mode` tells.
---@alias etcdlock.mode
---| "lock" # of `client:lock`
---| "read" # a reader's
---| "write" # a writer's
---| "permit" # of a semaphore
---| "multi" # several names at once
---| "leader" # of an election

---@class etcdlock.Client
local client = {}

---Takes the lock `name`, in the order in which it was asked for, and waits for its turn. The same
---owner gets the lock that it has again, with `count` + 1 and no request.
---Raises for an unknown option, a wrong type.
---Fails with timeout, locked, deadlock, lost, or a request's: `locked` with a `timeout` of 0,
---`deadlock` at once for a wait that could never end, `lost` if our entry in the queue was deleted
---while we waited.
---@param name string
---@param opts? etcdlock.LockOptions
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:lock(name, opts) end

---Takes the lock `name` if it is free at this moment. If it isn't, nothing is written, unless so
---much comes and goes below its name that only a place in the queue can tell.
---Raises for an unknown option, a wrong type.
---Fails with locked, deadlock, lost, or a request's: `locked` only if etcd or this client knows
---that another owner has it, `unavailable` if no answer has come in 2 s, `deadlock` for a wait that
---could never end, as of a reader who asks to write, `lost` if our entry in the queue was deleted
---meanwhile.
---@param name string
---@param opts? etcdlock.LockOptions without `timeout`, which doesn't count
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:try_lock(name, opts) end

---Runs `fn` under the lock, and releases it however `fn` ends. It never runs `fn` without the lock.
---If `fn` has run, but the lock was lost before it was done (`lost`), `fn` let go of it itself
---(`not_held`), or it can't be released (`denied`, `closed`, …), the answer is nil, message,
---code, **true**, results of `fn`: the `true` tells that the work is done, and not to be done
---again.
---Raises an error in `fn`, the same object; for an unknown option, a wrong type.
---Fails as client:lock, not_held: followed by true and the results if `fn` has run.
---@param name string
---@param opts? etcdlock.LockOptions may be left out
---@param fn fun(lock: etcdlock.Lock): ... called with the lock
---@overload fun(self: etcdlock.Client, name: string, fn: fun(lock: etcdlock.Lock): ...): true|nil, any, ...
---@return true|nil
---@return any ... what `fn` has returned; or a message and a code
function client:with_lock(name, opts, fn) end

---Asks for the lock and waits for nothing: for an event loop of your own. Who asks again before he
---has it waits for himself: where callbacks ask, name an `owner` for each.
---Raises for an unknown option, a wrong type.
---Fails with deadlock, or a request's: if nothing could be asked.
---@param name string
---@param opts? etcdlock.LockOptions
---@return etcdlock.Pending|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:lock_async(name, opts) end

---Takes the lock `name` as a reader: as `client:lock`, but beside other readers. A reader waits for
---the writers that asked before him.
---Raises for an unknown option, a wrong type.
---Fails as client:lock.
---@param name string
---@param opts? etcdlock.LockOptions
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:read_lock(name, opts) end

---As `client:try_lock`, for a reader.
---Raises for an unknown option, a wrong type.
---Fails as client:try_lock.
---@param name string
---@param opts? etcdlock.LockOptions
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:try_read_lock(name, opts) end

---As `client:with_lock`, for a reader.
---Raises an error in `fn`, the same object; for an unknown option, a wrong type.
---Fails as client:with_lock.
---@param name string
---@param opts? etcdlock.LockOptions may be left out
---@param fn fun(lock: etcdlock.Lock): ... called with the lock
---@overload fun(self: etcdlock.Client, name: string, fn: fun(lock: etcdlock.Lock): ...): true|nil, any, ...
---@return true|nil
---@return any ... what `fn` has returned; or a message and a code
function client:with_read_lock(name, opts, fn) end

---As `client:lock_async`, for a reader.
---Raises for an unknown option, a wrong type.
---Fails as client:lock_async.
---@param name string
---@param opts? etcdlock.LockOptions
---@return etcdlock.Pending|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:read_lock_async(name, opts) end

---Takes the lock `name` as a writer: as `client:lock`. A writer waits for everybody who asked
---before him; a plain lock of the name is a writer, too. Its owner may read as well (the same hold,
---`count` + 1).
---Raises for an unknown option, a wrong type.
---Fails as client:lock.
---@param name string
---@param opts? etcdlock.LockOptions
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:write_lock(name, opts) end

---As `client:try_lock`, for a writer.
---Raises for an unknown option, a wrong type.
---Fails as client:try_lock.
---@param name string
---@param opts? etcdlock.LockOptions
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:try_write_lock(name, opts) end

---As `client:with_lock`, for a writer.
---Raises an error in `fn`, the same object; for an unknown option, a wrong type.
---Fails as client:with_lock.
---@param name string
---@param opts? etcdlock.LockOptions may be left out
---@param fn fun(lock: etcdlock.Lock): ... called with the lock
---@overload fun(self: etcdlock.Client, name: string, fn: fun(lock: etcdlock.Lock): ...): true|nil, any, ...
---@return true|nil
---@return any ... what `fn` has returned; or a message and a code
function client:with_write_lock(name, opts, fn) end

---As `client:lock_async`, for a writer.
---Raises for an unknown option, a wrong type.
---Fails as client:lock_async.
---@param name string
---@param opts? etcdlock.LockOptions
---@return etcdlock.Pending|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:write_lock_async(name, opts) end

---Takes several names at once: one lock, with one token, taken in one transaction, released
---together, and lost with any of its keys; a guarded write happens only while all are there. It
---waits in the queue of each name, where it has asked, among plain locks, readers and writers of
---that name. Its owner has each of the names by it (the same hold, `count` + 1).
---Raises for an unknown option, a wrong type.
---Fails as client:lock: `deadlock`, at once, for who has some of the names already, but not all by
---one hold.
---@param names string[] 1 to 60
---@param opts? etcdlock.LockOptions without `linger`
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:multi_lock(names, opts) end

---As `client:try_lock`, for several names. If they aren't all free it leaves nothing behind.
---Raises for an unknown option, a wrong type.
---Fails as client:try_lock.
---@param names string[] 1 to 60
---@param opts? etcdlock.LockOptions without `linger`
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:try_multi_lock(names, opts) end

---As `client:with_lock`, for several names.
---Raises an error in `fn`, the same object; for an unknown option, a wrong type.
---Fails as client:with_lock.
---@param names string[] 1 to 60
---@param opts? etcdlock.LockOptions without `linger`; may be left out
---@param fn fun(lock: etcdlock.Lock): ... called with the lock
---@overload fun(self: etcdlock.Client, names: string[], fn: fun(lock: etcdlock.Lock): ...): true|nil, any, ...
---@return true|nil
---@return any ... what `fn` has returned; or a message and a code
function client:with_multi_lock(names, opts, fn) end

---As `client:lock_async`, for several names.
---Raises for an unknown option, a wrong type.
---Fails as client:lock_async.
---@param names string[] 1 to 60
---@param opts? etcdlock.LockOptions without `linger`
---@return etcdlock.Pending|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:multi_lock_async(names, opts) end

---Makes the semaphore `name`, of which at most `n` permits are held at a time, in the order in
---which they were asked for. Sends no request. A lock of the same name is independent of it.
---Programs may name different `n`, see [Change n](#change-n): then at most the largest `n` is held,
---and not always in order.
---Raises for a wrong type.
---Fails with invalid.
---@param name string
---@param n integer how many permits there are, 1 to 1000
---@return etcdlock.Semaphore|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:semaphore(name, n) end

---Makes the election `name`: who is first in the queue of that name leads, and says something, an
---address perhaps, which others read or observe. Asks nobody.
---Raises for a wrong type.
---Fails with invalid.
---@param name string
---@return etcdlock.Election|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:election(name) end

---Makes a function that calls `fn` with its own arguments under the lock, and answers what
---`with_lock` answers.
---Raises for a wrong type.
---@param name string
---@param opts? etcdlock.LockOptions may be left out
---@param fn function
---@overload fun(self: etcdlock.Client, name: string, fn: function): function
---@return function
function client:wrap(name, opts, fn) end

---Counts since `connect`. Taking and releasing a lock that nobody else wants costs two requests.
---@return etcdlock.Stats
function client:stats() end

---Tells what `client:stats` counts, and for how long locks were waited for and held (see `metrics`
---of connect), as a page in Prometheus' text format (text/plain; version=0.0.4). Local.
---Raises for an unknown option, a wrong type, a label that Prometheus doesn't take.
---Fails with forked.
---@param opts? etcdlock.MetricsOptions
---@return string|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:metrics(opts) end

---Tells whether the client has a session that is known to live. It has none before the first use,
---and between the end of one and the next time that it is used. Local.
---@return boolean
---@return etcdlock.seconds|etcdlock.code
function client:alive() end

---Reads once through etcd's majority. That this user may not read there is an answer, too: etcd
---looks at rights once the majority has spoken.
---Fails with a request's.
---@return etcdlock.seconds|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:ping() end

---Tells the session's lease.
---@return string|nil
function client:lease() end

---Releases all locks, revokes the lease and ends the I/O thread; waits half a second or a little
---more for etcd. In nginx the request waits, not its worker; in a phase that can't wait, `close`
---returns at once and the rest is done in the background. A client that is dropped without `close`
---is closed when Lua collects it, in the background, too. A lease whose hold was lost less than its
---`lock_delay` ago is not revoked; it ends by itself. If a member does not answer, the I/O thread
---and a socket end later, when the attempt to connect to the member ends: after at most 2 s, with
---TLS 5 s. Afterwards the client and its locks answer `closed`. May be repeated.
---@return true
function client:close() end

---Tells who holds the lock and who waits for it, the oldest first. A key below the name is an entry
---only if it is attached to the lease that its name contains; any other key is user data.
---Raises for a wrong type.
---Fails with a request's.
---@param name string
---@return etcdlock.Entry[]|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:queue(name) end

---Takes the lock away from the holder that has this token, from no other; from one of several names
---all of them. If it is unknown whether a multi-lock holds (`held` of `client:queue`), only its key
---below this name is deleted, which ends the hold or the wait of all its names. Deletes no user
---data: a key that is no entry is refused with `not_held`.
---Raises for a wrong type.
---Fails with not_held, or a request's.
---@param name string
---@param token etcdlock.token which `client:queue` tells
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:break_lock(name, token) end

---Tells who holds and who waits for all locks whose names begin with a prefix, as they stood at one
---moment. Whoever may not read all keys of etcd is told `denied`, unless it names a prefix that it
---may read.
---Raises for a wrong type.
---Fails with a request's: `unavailable`, too, if it can't be read in 5 s.
---@param prefix? string
---@return etcdlock.Line[]|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:queues(prefix) end

---Asks each member that `connect` was told of how it is. It says what the members say, and not
---whether a majority is there: that does `client:ping`.
---Fails with closed, forked, context, premature.
---@return etcdlock.Member[]|nil
---@return string|nil message
---@return etcdlock.code|nil code
function client:status() end

---@class etcdlock.Lock
local lock = {}

---Tells whether the lock is still ours. Local, cheap: no request, and no mutex while it is.
---@return boolean
---@return etcdlock.seconds|etcdlock.code
function lock:held() end

---Tells for how long it may be relied on. Local, cheap.
---@return etcdlock.seconds
function lock:remaining() end

---Tells the fencing token: the create_revision of our key. It never falls, and grows from client to
---client; a resource that remembers the largest one can refuse a late holder. Those who hand the
---lock on to each other share one; of readers and permits several are valid at a time.
---@return etcdlock.token
function lock:token() end

---Tells how many `unlock` calls are due.
---@return integer
function lock:count() end

---Tells the name it was asked for by, without the client's prefix.
---@return string
function lock:name() end

---Tells the names it was asked for by.
---@return string[]
function lock:names() end

---Tells what kind of lock it is.
---@return etcdlock.mode
function lock:mode() end

---Tells its key in etcd.
---@return string
function lock:key() end

---Tells its lease.
---@return string
function lock:lease() end

---Lets go once; the last of as many calls as there were locks releases it. May be repeated, can't
---free anybody else's lock. It waits 2 s at most for etcd to confirm; where it can't be waited for
---(in some phases of nginx) the answer is true as soon as the release is on its way. A `local lock
---<close>` (Lua 5.4) that goes out of scope is released too. A lock that has ended with its request
---in nginx is released already, which is true.
---Fails with not_held, lost, or a request's: `lost` if it was lost before, `unavailable` if it is
---not ours any more, but etcd has not confirmed: the release goes on in the background.
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
function lock:unlock() end

---Gives the lead up: a leader's `unlock`. If etcd did not answer a request of `campaign` in time,
---it may apply that request after `resign`: observers then see this candidate as leader again, with
---another token, until its client finds and deletes that key, which takes about 8 s at most while
---etcd answers.
---Raises for a lock that is no leader's.
---Fails as lock:unlock.
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
function lock:resign() end

---Sets the hard end of the hold, whatever `max_hold` was.
---Raises for a wrong type, for 0 or less, for inf.
---Fails with lost, not_held, closed, forked.
---@param seconds etcdlock.seconds from now, above 0
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
function lock:expire(seconds) end

---Has a function called once if the lock is lost. It never runs by itself or on another thread,
---only inside a later call of the same client: `held` or `check` of a lost lock, any call that
---takes a lock, a wait that lasts (but not that of `unlock`). The functions of all lost locks run
---in that call, in the order of their locks' first `on_lost`. If some raise an error, the call
---raises the first one after all have run. If the lock is lost already, fn is called at once.
---Raises for a wrong type.
---Fails with not_held.
---@param fn fun(lock: etcdlock.Lock, reason: etcdlock.reason) called with the lock and the reason
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
function lock:on_lost(fn) end

---Waits for the lock to be lost.
---Raises for a wrong type.
---Fails with timeout, not_held, closed, forked, context, premature.
---@param timeout? etcdlock.seconds how long at most; nil: for ever
---@return etcdlock.reason|nil
---@return string|nil message
---@return etcdlock.code|nil code
function lock:wait_lost(timeout) end

---Tells the same as `held`, confirmed by etcd.
---Fails with lost, not_held, or a request's.
---@return true|nil
---@return etcdlock.seconds|string|nil message
---@return integer|etcdlock.code|nil code
function lock:check() end

---Writes a key of etcd, if the lock is still ours when etcd applies it.
---Raises for a wrong type, under a read hold.
---Fails with lost, not_held, or a request's: with `unavailable` it may have been written, or be
---written later, but never after a later write of the same hold.
---@param key string taken as it is, without the client's prefix
---@param value string
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
function lock:put(key, value) end

---Deletes a key of etcd, if the lock is still ours when etcd applies it.
---Raises for a wrong type, under a read hold.
---Fails as lock:put.
---@param key string taken as it is, without the client's prefix
---@return true|nil
---@return boolean|string|nil message
---@return etcdlock.code|nil code
function lock:delete(key) end

---Reads a key of etcd, if the lock is still ours at that moment.
---Raises for a wrong type.
---Fails with lost, not_held, or a request's.
---@param key string taken as it is, without the client's prefix
---@return string|false|nil
---@return integer|nil|string message
---@return etcdlock.code|nil code
function lock:get(key) end

---Does several things at once, all or nothing, if the lock is still ours. No key may be changed
---twice.
---Raises for an operation that is none, a wrong type, under a read hold if one of them writes.
---Fails as lock:put.
---@param list string[][] each of them `{ "put", key, value }`, `{ "get", key }` or `{ "delete", key }`
---@return (boolean|string)[]|nil
---@return string|nil message
---@return etcdlock.code|nil code
function lock:txn(list) end

---Says something else to all who look or observe, only while it leads. What it says already is no
---news to them.
---Raises for a lock that is no leader's, a wrong type.
---Fails with lost, not_held, or a request's: with `lost` and `not_held` nothing was said; with
---`unavailable` it may have been said, or be said later, but never after something that it says
---later, or after its end; with `context` nothing was sent.
---@param value string up to 4096 bytes
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
function lock:proclaim(value) end

---Makes a writer's lock a reader's: readers are let in beside it, no other writer comes in between,
---and token and key stay. It counts as a reader's from the moment of the call, even where etcd has
---not confirmed it (`unavailable`): then repeat it. From then on `put`, `delete` and a `txn` that
---writes raise. An earlier write of unknown outcome is not applied after readers were let in.
---Raises for a lock that is no writer's.
---Fails with lost, not_held, or a request's: `invalid` while several `unlock` calls are due,
---because all of them count on it.
---@return true|nil
---@return string|nil message
---@return etcdlock.code|nil code
function lock:downgrade() end

---@class etcdlock.Pending
local pending = {}

---Tells how it is going. Never blocks.
---Fails as client:lock, cancelled.
---@return etcdlock.Lock|false|nil
---@return string|nil message
---@return etcdlock.code|nil code
function pending:step() end

---Gives the wait up, or releases the lock if it was decided and nobody has asked for it yet. `step`
---answers `cancelled` from then on.
---@return boolean
function pending:cancel() end

---Tells whether there is something to `step` for, without waiting for the descriptor. For
---luasocket's `select`.
---@return boolean
function pending:dirty() end

---Tells the client's descriptor, which is readable when any of its waits has ended. For cqueues,
---and a loop of your own.
---@return integer|nil
function pending:pollfd() end

---Tells the same to luasocket's `select`, which wants one even where there is nothing to poll.
---@return integer
function pending:getfd() end

---Has `copas.receive(pending)` yield until `step` has an answer, and return that.
---Fails as pending:step: and nil, `timeout` while it waits, as copas wants it.
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
function pending:receive() end

---Does nothing: copas calls it, and the lock has a timeout of its own.
---@return nil
function pending:settimeout() end

---Gives the wait up: when a coroutine ends, copas closes what it waited for last.
---@return nil
function pending:close() end

---Tells cqueues what to poll the descriptor for.
---@return string
function pending:events() end

---Tells cqueues how long to poll: the lock's own timeout is kept elsewhere.
---@return etcdlock.seconds|nil
function pending:timeout() end

---@class etcdlock.Semaphore
local semaphore = {}

---Takes a permit, and waits until one is free. The permit is a lock like any other, but not
---reentrant: each call takes another permit, also for an owner that has one. If the program blocks
---while it waits, and it holds `n` permits without `max_hold`, the call fails with `deadlock` at
---once. In an event loop and in nginx the call waits, because another coroutine may unlock a
---permit: a coroutine that holds all `n` permits itself waits for ever without a `timeout`. Only
---permits that an earlier phase of the same nginx request holds count for `deadlock` there. Permits
---are unlocked in any order, so a resource must not refuse a token because it is smaller than the
---last one.
---Raises for an unknown option, a wrong type.
---Fails as client:lock.
---@param opts? etcdlock.LockOptions without `linger`
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
function semaphore:lock(opts) end

---As `client:try_lock`, for a permit.
---Raises for an unknown option, a wrong type.
---Fails as client:try_lock.
---@param opts? etcdlock.LockOptions without `linger`
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
function semaphore:try_lock(opts) end

---As `client:with_lock`, for a permit. A `with_lock` inside a `with_lock` of the same semaphore
---takes a second permit.
---Raises an error in `fn`, the same object; for an unknown option, a wrong type.
---Fails as client:with_lock.
---@param opts? etcdlock.LockOptions without `linger`; may be left out
---@param fn fun(lock: etcdlock.Lock): ... called with the permit
---@overload fun(self: etcdlock.Semaphore, fn: fun(lock: etcdlock.Lock): ...): true|nil, any, ...
---@return true|nil
---@return any ... what `fn` has returned; or a message and a code
function semaphore:with_lock(opts, fn) end

---As `client:lock_async`, for a permit.
---Raises for an unknown option, a wrong type.
---Fails as client:lock_async.
---@param opts? etcdlock.LockOptions without `linger`
---@return etcdlock.Pending|nil
---@return string|nil message
---@return etcdlock.code|nil code
function semaphore:lock_async(opts) end

---Counts the permits that are free at this moment: `n` minus the number of entries that hold or
---wait, at least 0. Others may take them before you do.
---Fails with a request's.
---@return integer|nil
---@return string|nil message
---@return etcdlock.code|nil code
function semaphore:available() end

---Tells the name it was asked for by, without the client's prefix.
---@return string
function semaphore:name() end

---Tells `n`, the number of permits that this semaphore was made with.
---@return integer
function semaphore:permits() end

---@class etcdlock.Election
local election = {}

---Stands, says `value`, and waits until it leads. A leadership is a lock like any other, with its
---methods and `proclaim` and `resign`. One that is lost is lost like a lock: its holder knows
---before the next one leads, if it looks. The same owner who says the same has the same leadership
---again, `count` + 1; with another value the call fails with `deadlock`: use `proclaim`. In nginx
---it ends with its request or timer.
---Raises for an unknown option, a wrong type.
---Fails as client:lock.
---@param value string up to 4096 bytes
---@param opts? etcdlock.LockOptions without `linger` and `value`
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
function election:campaign(value, opts) end

---As `client:try_lock`, for the lead.
---Raises for an unknown option, a wrong type.
---Fails as client:try_lock.
---@param value string up to 4096 bytes
---@param opts? etcdlock.LockOptions without `linger` and `value`
---@return etcdlock.Lock|nil
---@return string|nil message
---@return etcdlock.code|nil code
function election:try_campaign(value, opts) end

---As `client:with_lock`, for the lead.
---Raises an error in `fn`, the same object; for an unknown option, a wrong type.
---Fails as client:with_lock.
---@param value string up to 4096 bytes
---@param opts? etcdlock.LockOptions without `linger` and `value`; may be left out
---@param fn fun(lock: etcdlock.Lock): ... called with the leadership
---@overload fun(self: etcdlock.Election, value: string, fn: fun(lock: etcdlock.Lock): ...): true|nil, any, ...
---@return true|nil
---@return any ... what `fn` has returned; or a message and a code
function election:with_leadership(value, opts, fn) end

---As `client:lock_async`, for the lead.
---Raises for an unknown option, a wrong type.
---Fails as client:lock_async.
---@param value string up to 4096 bytes
---@param opts? etcdlock.LockOptions without `linger` and `value`
---@return etcdlock.Pending|nil
---@return string|nil message
---@return etcdlock.code|nil code
function election:campaign_async(value, opts) end

---Tells who leads at this moment, as the majority of the cluster has it. A key is a candidate's
---only if it is attached to the lease that its name contains.
---Fails with a request's.
---@return string|nil
---@return string|nil message
---@return etcdlock.token|nil|etcdlock.code code
function election:leader() end

---Makes an observer, which reports the current leader and then each change of the leader or its
---value. It always ends with the newest leader and never reports an older one after a newer one;
---intermediate leaders and values may be skipped. It also reports when nobody leads any more. Sends
---no request itself. Returns four values, as Lua's `for` wants them; elsewhere put the call in
---parentheses, as in `table.insert(list, (election:observe()))`.
---@return etcdlock.Observer
---@return nil
---@return nil
---@return etcdlock.Observer
function election:observe() end

---Tells the name it was asked for by, without the client's prefix.
---@return string
function election:name() end

---@class etcdlock.Observer
---@overload fun(): string|false|nil, string?, etcdlock.token?
local observer = {}

---Waits until the leader or its value has changed and returns both, or `false` if nobody leads any
---more. The first call returns the current leader, or waits for one. Several coroutines may call
---one observer: each change is returned to one of them.
---Raises for a wrong type.
---Fails with timeout, unavailable, closed, denied, conflict, forked, context, premature: after
---`unavailable` (etcd is out of reach) the next call goes on.
---@param timeout? etcdlock.seconds seconds to wait; 0: only asks etcd, for 0.25 s, if there may be a change; nil: no limit, also in an outage, but not for an etcd that was never reached
---@return string|false|nil
---@return string|nil message
---@return etcdlock.token|etcdlock.code|nil code
function observer:next(timeout) end

---Closes the observer: every call fails with `closed` from then on, also one that waits. May be
---repeated. Lua 5.4 closes the observer at the end of `for … in election:observe() do`, also
---after `break`; otherwise Lua closes it when it is collected as garbage.
---@return true
function observer:close() end

---@class etcdlock
local M = { _VERSION = "" }

---Makes a client for one etcd cluster. Sends nothing before the first use.
---Raises for an unknown option, a wrong type.
---Fails with invalid, nomem, forked, context: `forked` in a process that was forked after its
---parent had connected, `context` in nginx's `init_by_lua`.
---@param opts? etcdlock.ConnectOptions
---@return etcdlock.Client|nil
---@return string|nil message
---@return etcdlock.code|nil code
function M.connect(opts) end

---Runs a function under a lock of the default client: one per process, made on first use with the
---defaults of `connect`.
---Raises an error in `fn`, the same object; for an unknown option, a wrong type.
---Fails as client:with_lock, etcdlock.connect.
---@param name string
---@param opts? etcdlock.LockOptions may be left out
---@param fn fun(lock: etcdlock.Lock): ... called with the lock
---@overload fun(name: string, fn: fun(lock: etcdlock.Lock): ...): true|nil, any, ...
---@return true|nil
---@return any ... what `fn` has returned; or a message and a code
function M.with_lock(name, opts, fn) end

---Makes one page of several that `client:metrics` has answered. What has the same name and labels
---in them is added up.
---@param texts string[]
---@return string
function M.join_metrics(texts) end

---Tells where the last error came from that went through a `with_lock`. Only needed before Lua 5.4
---and in coroutines; elsewhere, whoever catches the error still finds the stack.
---@return string|nil
function M.traceback() end

return M
