-- Tests the completions bin/etcdlock.* with each shell at a terminal: a test types a line with
-- tabs, and sees the words with which the shell runs it.

-- A program that the shells offer as the command to run.
local PROGRAM = "etcdlock-program-of-the-spec"

-- Each shell: the command line that starts it, the lines that it reads first, and the name of its
-- completion. The lines make `etcdlock` a function that prints each argument in brackets.
local SHELLS = {
  bash = { "bash --norc -i", {
    "etcdlock() { printf '[%s]' \"$@\"; echo; }",
    ". ./completions/etcdlock",
    "bind 'set enable-bracketed-paste off'; PS1='ready''> '",
  }, "etcdlock" },
  fish = { "fish --no-config -i", {
    "function etcdlock; printf '[%s]' $argv; echo; end",
    "set -p fish_complete_path $PWD/completions",
    "function fish_prompt; echo -n 'ready''> '; end",
  }, "etcdlock.fish" },
  zsh = { "zsh -f -i", {
    "etcdlock() { printf '[%s]' \"$@\"; echo }",
    "fpath=($PWD/completions $fpath); autoload -U compinit; compinit -D -u",
    "unsetopt prompt_cr prompt_sp; PS1='ready''> '",
  }, "_etcdlock" },
}

-- Starts the shell |name| at a terminal.
local function start(name)
  local directory = temporary.directory()
  local _, env = command.words()
  temporary.program(directory .. "/" .. PROGRAM, "")
  command.install(directory)
  assert(uv.fs_mkdir(directory .. "/completions", tonumber("700", 8)))
  write_file(directory .. "/completions/" .. SHELLS[name][3],
    (assert(read_file("bin/etcdlock." .. name)):gsub("(_etcdlock_program[= ])etcdlock",
      "%1" .. directory .. "/etcdlock")))
  env.PATH = directory .. ":" .. os.getenv "PATH"
  env.HOME, env.TERM, env.INPUTRC = directory, "xterm", "/dev/null"
  local shell = proc.talk(session.at_terminal(("stty -echo cols 200; cd '%s'; exec %s")
    :format(directory, SHELLS[name][1])), env)
  for _, line in ipairs(SHELLS[name][2]) do shell:send(line) end
  return shell
end

-- Types |keys| and Return at the prompt of |shell|. Returns the words of etcdlock.
local function type_line(shell, keys)
  wait.eventually(function() return shell.out.text:find("ready> ", 1, true) end, 10, "a prompt")
  local from = #shell.out.text + 1
  shell.stdin:write(keys .. "\n")
  local words
  wait.eventually(function()
    words = shell.out.text:match("\n?\r?(%[[^\r\n]*%])\r*\n", from)
    return words
  end, 10, "the words of " .. keys)
  return words
end

for name in pairs(SHELLS) do
  local is_there = select(2, proc.run { "sh", "-c", "command -v " .. name }) == 0

  describe("the completion of " .. name, function()
    if not is_there then
      return it("is tested", function() pending(name .. " is not installed") end)
    end

    it("completes subcommands and options", function()
      assert.equal("[doctor][--endpoints]", type_line(start(name), "etcdlock doc\t --endp\t"))
    end)

    for _, subcommand in ipairs { "ls", "break" } do
      it("offers the names of locks for " .. subcommand, function()
        local lock = prefix .. "it's a lock"
        clients.keep(assert(connect { prefix = clients.NONE }:lock(lock)))
        assert.equal(("[%s][%s]"):format(subcommand, lock),
          type_line(start(name), ("etcdlock %s %s\t"):format(subcommand, prefix)))
      end)
    end

    it("completes the command to run", function()
      for _, line in ipairs { "run x ", "run x --quiet -- ", "elect x y " } do
        assert.equal(("[%s][%s]"):format(line:gsub(" $", ""):gsub(" ", "]["), PROGRAM),
          type_line(start(name), "etcdlock " .. line .. PROGRAM:sub(1, -4) .. "\t"))
      end
    end)
  end)
end
