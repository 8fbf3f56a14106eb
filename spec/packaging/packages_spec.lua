-- Tests .ci/deps.sh, which installs Debian packages, with a script in place of apt.
-- Needs: one plain member, no sanitizer.

-- Creates a checkout in which the shell command |apt| takes the place of .ci/apt_install.sh, and no
-- package is installed. Returns its directory and the environment.
local function checkout(apt)
  local directory = temporary.directory()
  proc.run { "mkdir", directory .. "/.ci", directory .. "/bin" }
  write_file(directory .. "/.ci/deps.sh", assert(read_file ".ci/deps.sh"))
  write_file(directory .. "/.ci/apt_install.sh", apt)
  write_file(directory .. "/bin/dpkg-query", "#!/bin/sh\nexit 1\n")
  for _, name in ipairs { "apt-get", "sudo" } do
    write_file(directory .. "/bin/" .. name, '#!/bin/sh\ntest "$1" = -n || exec "$@"\n')
  end
  proc.run { "sh", "-c", 'chmod +x "$0"/bin/*', directory }
  return directory, { PATH = directory .. "/bin:" .. os.getenv "PATH", TERM = "xterm" }
end

local DEPS = "sh .ci/deps.sh wrk 5.4"

describe("make build-deps", function()
  it("prints two plain lines if standard output is not a terminal, and logs the rest", function()
    local directory, env = checkout 'echo "Unpacking $1 ..."'
    local out, code, err = proc.run({ "sh", "-c", DEPS }, { cwd = directory, env = env })
    assert.same({ 0, "" }, { code, err })
    assert.matches("^Installing 1 Debian packages[^\n]*: wrk\nThe packages are installed%.\n$", out)
    assert.matches("^Unpacking wrk ...\n", read_file(directory .. "/build/apt.log"))
  end)

  it("shows the newest line of apt on a terminal", function()
    local directory, env = checkout 'echo "Unpacking $1 ..."; printf "5%%\\r100%%\\n"'
    local out, code = proc.run(session.at_terminal(DEPS), { cwd = directory, env = env })
    assert.equal(0, code, out)
    assert.matches("\r\27[K  Unpacking wrk ...\r\27[K  100%\r", out, 1, true)
    assert.matches("\r\27%[KThe packages are installed%.\r\n$", out)
  end)

  it("fails with the end of apt's output if apt fails", function()
    local directory, env = checkout 'echo "E: no such package: $1"; exit 100'
    local _, code, err = proc.run({ "sh", "-c", DEPS }, { cwd = directory, env = env })
    assert.equal(1, code)
    assert.matches("^E: no such package: wrk\n.*\napt could not install them[^\n]*\n$", err)
  end)

  it("prints `interrupted` after Ctrl-C when apt has tidied up", function()
    local directory, env = checkout [[
      trap 'sleep 0.3; echo tidy' EXIT
      trap 'exit 1' INT
      echo begun
      while :; do sleep 0.1; done
    ]]
    local command = ("cd '%s'; stty -echo; %s"):format(directory, DEPS)
    local child = proc.talk(session.at_terminal(command), env)
    child:expect "^Installing"
    wait.eventually(function()
      return read_file(directory .. "/build/apt.log") == "begun\n"
    end, 5, "apt")
    child:send "\3"
    assert.equal(130, (child:wait()))
    assert.matches("\r\27%[Kinterrupted\r\n$", child.out.text)
    assert.matches("\ntidy\n$", read_file(directory .. "/build/apt.log"))
  end)
end)
