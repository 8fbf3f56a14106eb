-- The released versions of etcdlock, built from the history, to run their clients beside the
-- present ones.

local assert = require "luassert"
local matrix = require "spec.support.harness.matrix"
local proc = require "spec.support.programs.proc"
local uv = require "luv"

local M = {}

local MISSING_STATUS = 3 -- exit status of build.sh without that commit

-- The oldest first; a release appends its line. doc/compatibility.md has a row for each.
--   version  what the documents call it
--   commit   from which it is built
--   has_delay_in_calls  true: `lock_delay` is an option of a lock call
--   unsafe   the first minor version of etcd 3 with which it grants locks that are held
M.ALL = {
  { version = "0.2.0", commit = "2d779593b99012ac7b822c0652a91304a09f78c8", unsafe = 7,
    has_delay_in_calls = true },
  -- The package 0.2.1-1; then the last commit before the first feature of 1.0.0.
  { version = "0.2.1-1", commit = "0d4c98f2a3fcdb1efc09e9fd6ebef165c69122f6",
    has_delay_in_calls = true },
  { version = "0.2.1", commit = "ecb4391abd5c11ad9a3a39b116c9ed77e0576579" },
}

-- The versions that a run tests: the oldest one; with RELEASES=all each.
M.TESTED = os.getenv "RELEASES" == "all" and M.ALL or { M.ALL[1] }

-- Builds |release|. Returns the environment in which programs use that version, and the path of its
-- command, which needs this environment, too. Returns nil and the reason, in one line, if that is
-- impossible.
function M.build(release)
  local lua = jit and "jit" or _VERSION:sub(5)
  local directory = ("%s/build/releases/%s-%s"):format(uv.cwd(), release.version, lua)
  local etcd = matrix.etcd_version()
  if release.unsafe and tonumber(etcd:match "^3%.(%d+)") >= release.unsafe then
    return nil, ("etcdlock %s is not safe with etcd %s"):format(release.version, etcd)
  end
  local _, status, why = proc.run({
    "sh", "spec/support/releases/build.sh", release.commit, lua, directory,
  }, { seconds = 300 })
  if status == MISSING_STATUS then
    return nil, ("etcdlock %s: %s"):format(release.version, (why:gsub("\n$", "")))
  end
  assert.equal(0, status, why)
  local env = proc.lua_environment()
  env.LUA_PATH = ("%s/lua/?.lua;%s/lua/?/init.lua;%s/spec/support/releases/?.lua;%s"):format(
    directory, directory, uv.cwd(), env.LUA_PATH)
  env.LUA_CPATH = ("%s/core/?.so;%s"):format(directory, env.LUA_CPATH)
  return env, directory .. "/bin/etcdlock"
end

return M
