--- What all event loops have in common. A loop's own file says what differs:
--   is_here(chosen)     may the running coroutine wait by yielding to this loop?
--                       `chosen` is what connect's `loop` named, if it did
--   which()             which of several such loops this is; may be missing
--   suspend(park)       yields until wake(park), or not as long
--   wake(park)          ends that; must neither yield nor raise
--   watch(fd, deliver)  has deliver() called, in this loop, whenever fd is
--                       readable, until the function that it returns is called
--                       with fd (which must not hold on to what which() gave)
-- A park is what such a loop knows of a wait, with is_over, and what the loop's own file
-- adds to it. It doesn't hold the wait.

--- The loop with these parts, for await: wait(wait, seconds) yields until the end
-- of the wait is told, there are losses to tell, or `seconds` have passed (nil: no
-- limit), or not as long; message, code if it can't.
return function(parts)
  local loop = { is_here = parts.is_here }

  local Park = {}
  Park.__index = Park

  --- What it waits for is there, or a loss.
  function Park:wake()
    if self.losses then -- here too: a coroutine that was dropped never leaves
      self.losses:remove_waiter(self)
    end
    if not self.is_woken then
      self.is_woken = true
      parts.wake(self)
    end
  end

  --- The loop forgets it.
  function Park:leave()
    local wakeups = self.wakeups
    self.is_over = true
    wakeups:forget(self.number)
    if self.has_alarm then
      wakeups.core:alarm(self.number, nil)
    end
    if self.losses then
      self.losses:remove_waiter(self)
    end
    if self.watcher then
      self.watcher:leave()
    end
  end

  local function suspend(park)
    park.watcher = park.wakeups:watch(parts.which and parts.which() or parts, parts.watch)
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
    local park = setmetatable({
      wakeups = wakeups, losses = losses, has_alarm = false, is_woken = false, is_over = false,
    }, Park)
    if losses and not losses:add_waiter(park) then
      return nil -- first things first
    end
    park.number = wakeups:expect(park)
    wait.park = park
    if wait:arm(park.number) then
      park.has_alarm = seconds and wakeups.core:alarm(park.number, seconds)
      suspend(park)
    end
    wait.park = nil
    park:leave()
  end

  return loop
end
