-- A copy of the project in which one mutant at a time lives, and can be looked at.

local ports = require "spec.support.servers.port"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local Tree = {}
Tree.__index = Tree

local BUILT_IN = 600 -- seconds
local LONGEST = 600 -- for who looks at the code for the first time

-- The build that specs use, and that of those that run nginx, besides.
local MODULES = { "TESTING=1", "TESTING=1 LUA_VERSION=jit" }

function Tree.new()
  local self = setmetatable({}, Tree)
  self.root = assert(uv.fs_mkdtemp((os.getenv "TMPDIR" or "/tmp") .. "/etcdlock-XXXXXX"))
  self.output, self.ports = self.root .. "/output", ports.reserve()
  -- With what is built, and with its times: make finds nothing to do.
  local copy = "mkdir '%s/tree' && cp -a Makefile .busted README.md CHANGELOG.md src lua spec"
    .. " examples bench bin doc build '%s/tree'"
  assert(os.execute(copy:format(self.root, self.root)))
  return self
end

-- When nothing runs there any more.
function Tree:remove()
  os.execute(("rm -rf '%s'"):format(self.root))
end

-- ---- commands -----------------------------------------------------------------

-- make is not to believe that it is part of the one that runs us.
local ENVIRONMENT = { MAKEFLAGS = false, MFLAGS = false, MAKELEVEL = false, CI = false }

-- Runs |argv| there, for |seconds| at most; to be called in a coroutine, which yields
-- meanwhile. Returns its exit code, nil if it took too long, and its output.
local function run(self, argv, seconds)
  local directory = self.root .. "/tmp"
  assert(uv.fs_mkdir(directory, tonumber("755", 8)))
  local env = { TMPDIR = directory, SPEC_PORTS = self.ports.range }
  for name, value in pairs(ENVIRONMENT) do env[name] = value end
  local output = assert(uv.fs_open(self.output, "w", tonumber("644", 8)))
  local process = proc.spawn(argv, { nil, output, output }, {
    env = env, cwd = self.root .. "/tree",
  })
  uv.fs_close(output)
  local deadline = wait.now() + seconds
  while not process.code and wait.now() < deadline do
    coroutine.yield()
  end
  local code = process.code
  if code and process.signal ~= 0 then code = 128 + process.signal end
  proc.destroy(process)
  os.execute(("rm -rf '%s'"):format(directory))
  return code, read_file(self.output)
end

local function make(self, what)
  local argv = { "make", "--no-print-directory" }
  for word in what:gmatch "%S+" do argv[#argv + 1] = word end
  local code, text = run(self, argv, BUILT_IN)
  if code ~= 0 then error("it can't be built: " .. text, 0) end
end

-- ---- mutants --------------------------------------------------------------------

local function write_file(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

-- |text| with the one place changed.
local function change(text, was, is)
  local pattern = was:gsub("%p", "%%%0"):gsub("%s+", "%%s+")
  local first, last = text:find(pattern)
  if not first then error("what it changes is not there any more", 0) end
  if text:find(pattern, last + 1) then error("what it changes is there twice", 0) end
  return text:sub(1, first - 1) .. is .. text:sub(last + 1)
end

function Tree:apply(mutant)
  local path = self.root .. "/tree/" .. mutant.file
  self.original = assert(read_file(path), "there is no such file: " .. mutant.file)
  write_file(path, change(self.original, mutant.was, mutant.is))
end

function Tree:restore(mutant)
  if self.original then write_file(self.root .. "/tree/" .. mutant.file, self.original) end
  self.original = nil
end

-- ---- looking --------------------------------------------------------------------

local function look_by_simulator(self, seconds)
  make(self, "build/sim/sim")
  return run(self, { "build/sim/sim", "--first" }, seconds)
end

local function look_by_spec(self, file, words, seconds)
  local path = ("spec/%s_spec.lua"):format(file)
  local needs_nginx = assert(read_file(path), "there is no " .. path):find "servers%.nginx"
  make(self, MODULES[1] .. " all")
  if needs_nginx then make(self, MODULES[2] .. " all") end
  local argv = { uv.exepath(), os.getenv "BUSTED", "--no-keep-going" }
  if words ~= "" then argv[#argv + 1] = "--filter=" .. words:gsub("%p", "%%%0") end
  argv[#argv + 1] = path
  return run(self, argv, seconds)
end

-- What |by| has to say of what is there, within |seconds|: "green", "red", or "late";
-- and in which words.
function Tree:look(by, seconds)
  local file, words = by:match "^([^:]+):? ?(.*)$"
  local code, text
  if by == "sim" then
    code, text = look_by_simulator(self, seconds or LONGEST)
  else
    code, text = look_by_spec(self, file, words, seconds or LONGEST)
  end
  if code == 0 and not text:find "[1-9]%d* passed, 0 failed" then
    error(("%s: no test was run\n%s"):format(by, text), 0)
  end
  return not code and "late" or code == 0 and "green" or "red", text
end

return Tree
