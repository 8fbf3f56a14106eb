-- A browser without a window: Chromium, as Debian has it.

local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"

local M = {}

-- Without the shell script of that name: killed, that would leave it behind.
local PROGRAM = "/usr/lib/chromium/chromium-headless-shell"

-- What starts it with |flags| at |url|, and its environment: all that it writes is in a
-- temporary directory. Its sandbox is for strangers' pages, and not for root.
local function command(url, flags)
  assert(uv.fs_stat(PROGRAM), PROGRAM .. " is not there; make deps installs it")
  local directory = temporary.directory()
  local argv = { PROGRAM, "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--user-data-dir=" .. directory }
  for _, flag in ipairs(flags) do argv[#argv + 1] = flag end
  argv[#argv + 1] = url
  return argv, { HOME = directory }
end

local function run(url, flags)
  local argv, env = command(url, flags)
  local out, code, err = proc.run(argv, { env = env, seconds = 60 })
  assert(code == 0, err)
  return out
end

-- The document at |url| as it stands once it is loaded and its scripts have run.
function M.document(url)
  return run(url, { "--dump-dom" })
end

-- The page at |url| as a picture, |width| by |height|: the text of a PNG.
function M.picture(url, width, height)
  local file = temporary.directory() .. "/page.png"
  run(url, {
    "--hide-scrollbars", ("--window-size=%d,%d"):format(width, height), "--screenshot=" .. file,
  })
  return assert(read_file(file))
end

-- Opens |url| and leaves it open, as on somebody's screen; a child.
function M.open(url)
  return proc.talk(command(url, { "--remote-debugging-port=0" }))
end

return M
