-- Runs Debian's headless Chromium, if it is installed. `make check-all` installs it.

local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"

local M = {}

-- Not /usr/bin/chromium-headless-shell: killing that shell script leaves the browser running.
local PROGRAM = "/usr/lib/chromium/chromium-headless-shell"

-- Returns true if the browser is installed.
function M.is_installed()
  return uv.fs_stat(PROGRAM) ~= nil
end

-- Returns the command that opens |url| with |flags|, and its environment. The browser writes only
-- to a temporary directory. It runs without its sandbox, which does not work for root.
local function command(url, flags)
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

-- Returns the HTML of |url| after the browser has loaded the page and run its scripts.
function M.document(url)
  return run(url, { "--dump-dom" })
end

-- Returns a screenshot of |url|, |width| by |height| pixels, as the bytes of a PNG file.
function M.picture(url, width, height)
  local file = temporary.directory() .. "/page.png"
  run(url, {
    "--hide-scrollbars", ("--window-size=%d,%d"):format(width, height), "--screenshot=" .. file,
  })
  return assert(read_file(file))
end

-- Opens |url| and returns the child process; the page stays open until the child is destroyed.
function M.open(url)
  return proc.talk(command(url, { "--remote-debugging-port=0" }))
end

return M
