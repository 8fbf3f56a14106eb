--- etcdlock ls: who holds and who waits.
local exit = require "etcdlock.command.exit"
local settings = require "etcdlock.command.settings"
local view = require "etcdlock.command.view.queues"

-- Home, and everything from there on is erased, also on the right of each line.
local REDRAW, LINE_END, REST = "\27[H", "\27[K\n", "\27[J"
-- So often somebody is heard who wants it to end, in seconds.
local SLICE = 0.2

--- False where nobody reads it any more.
local function show(args, found, is_screen)
  if args.json then
    io.write(view.json(found), "\n")
  elseif is_screen then
    io.write(REDRAW, table.concat(view.lines(found), LINE_END), LINE_END, REST)
  else
    io.write(table.concat(view.lines(found), "\n"), "\n", args.watch and "\n" or "")
  end
  return io.flush()
end

local function sleep(seconds)
  local uv = require "luv"
  while seconds > 0 do
    uv.sleep(math.ceil(math.min(seconds, SLICE) * 1000))
    seconds = seconds - SLICE
  end
end

--- Shows it, and again and again if that is wanted; while etcd is away it says so, and goes
-- on. The exit status.
local function look(args, client)
  local is_screen = args.watch and not args.json and require "luv".guess_handle(1) == "tty"
  while true do
    local found, message, code = client:queues(args.below)
    if found then
      if not show(args, found, is_screen) then
        return exit.FAILED
      end
    else
      local status = settings.fail(message, code)
      if not args.watch or code ~= "unavailable" then
        return status
      end
    end
    if not args.watch then
      return exit.OK
    end
    sleep(args.interval)
  end
end

--- Does it: the exit status.
return function(args)
  local client, status = settings.connect(args)
  if not client then
    return status
  end
  status = look(args, client)
  client:close()
  return status
end
