--- What all event loops have in common. A loop's own file says what differs:
--   is_here(chosen)     may the running coroutine wait by yielding to this loop?
--                       `chosen` is what connect's `loop` named, if it did
--   which()             which of several such loops this is; may be missing
--   suspend(park)       yields until wake(park), or not as long
--   wake(park)          ends that; must neither yield nor raise
--   watch(fd, deliver)  has deliver() called, in this loop, whenever fd is
--                       readable, until the function that it returns is called
--                       with fd (which must not hold on to what which() gave)
-- A park is the wait's own table: fd, the client's descriptor, and is_over.

--- The loop with these parts, for await: wait(wait, seconds) yields until the end
-- of the wait is told, there are losses to tell, or `seconds` have passed (nil: no
-- limit), or not as long; message, code if it can't.
return function(parts)
  local loop = { is_here = parts.is_here }

  local function suspend(wakeups, park)
    park.unwatch = wakeups:watch(parts.which and parts.which() or parts, parts.watch)
    if not park.is_woken then
      parts.suspend(park)
    end
  end

  function loop.wait(wait, seconds)
    local wakeups, losses = wait.wakeups, wait.losses
    local fd, message, code = wakeups:fd()
    if not fd then
      return message, code
    end
    local park = { fd = fd }
    local function wake()
      if losses then -- here too: a coroutine that was dropped never leaves
        losses:stop_hearing(park)
      end
      if not park.is_woken then
        park.is_woken = true
        parts.wake(park)
      end
    end
    if losses and not losses:hear(park, wake) then
      return nil -- first things first
    end
    local number, has_alarm = wakeups:expect(wake), false
    function wait.leave()
      wait.leave = nil
      park.is_over = true
      wakeups:forget(number)
      if has_alarm then
        wakeups.core:alarm(number, nil)
      end
      if losses then
        losses:stop_hearing(park)
      end
      if park.unwatch then
        park.unwatch()
      end
    end
    if wait:arm(number) then
      if seconds then
        has_alarm = wakeups.core:alarm(number, seconds)
      end
      suspend(wakeups, park)
    end
    wait.leave()
  end

  return loop
end
