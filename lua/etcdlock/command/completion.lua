--- etcdlock completion prints the code that completes the command line in a shell. argparse makes
-- most of it from the parser. The code below adds the names of locks, for ls and break, and the
-- command to run.
local check = require "etcdlock.check"
local parser = require "etcdlock.command.parser"
local report = require "etcdlock.command.report"

local M = {}

-- The code of the shells runs the program that the variable _etcdlock_program names, by default
-- etcdlock. The installed files set it to the absolute path of the installed command.

-- ---- bash ----

-- Completes the command to run, and names. If bash-completion is loaded, the command to run is
-- completed like a command line of its own; otherwise only its first word is completed.
-- VALUE_OPTIONS stands for the options that take a value. In COMP_WORDS, each "=" and each ":" is a
-- word of its own, because bash splits words there. A name is not completed after one of these.
local BASH = [==[

_etcdlock_command() {
    if declare -F _command_offset >/dev/null; then
        _command_offset $1
    elif (($1 == COMP_CWORD)); then
        COMPREPLY=($(compgen -c -- "${COMP_WORDS[COMP_CWORD]}"))
    fi
}

_etcdlock_names() {
    local name
    while IFS= read -r name; do
        if [[ "$name" = "$1"* ]]; then COMPREPLY+=("$(printf %q "$name")"); fi
    done < <("${_etcdlock_program:-etcdlock}" ls --names 2>/dev/null </dev/null)
}

_etcdlock_line() {
    local i left= names=
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${COMP_WORDS[i]}" in
            --)
                _etcdlock_command $((i + 1))
                return
                ;;
            = | :)
                ((i++))
                ;;
            --insecure-transport)
                if [[ "${COMP_WORDS[i + 1]}" = @(true|false) ]]; then ((i++)); fi
                ;;
            VALUE_OPTIONS)
                ((i++))
                if [[ "${COMP_WORDS[i]}" = '=' ]]; then ((i++)); fi
                ;;
            -*) ;;
            *)
                names=
                if [[ "$left" = 0 ]]; then
                    _etcdlock_command $i
                    return
                elif [[ "$left" ]]; then
                    ((left--))
                else
                    case "${COMP_WORDS[i]}" in
                        run) left=1 ;;
                        elect) left=2 ;;
                        ls | break) left=-1 names=1 ;;
                        *) left=-1 ;;
                    esac
                fi
                ;;
        esac
    done
    if [[ $i != "$COMP_CWORD" || "${COMP_WORDS[i]}" = -* ||
        "${COMP_WORDS[i - 1]}" = --insecure-transport ]]; then
        _etcdlock
    elif [[ "$left" = 0 ]]; then
        _etcdlock_command $i
    elif [[ "$names" ]]; then
        _etcdlock_names "${COMP_WORDS[i]}"
    else
        _etcdlock
    fi
}

complete -F _etcdlock_line -o bashdefault -o default etcdlock
]==]

local function for_bash(root, options)
  return root:get_bash_complete()
    .. BASH:gsub("VALUE_OPTIONS", (table.concat(options, " | ")))
end

-- ---- zsh ----

local ZSH = [==[

_etcdlock_names() {
  local -a names
  names=(${(f)"$("${_etcdlock_program:-etcdlock}" ls --names 2>/dev/null </dev/null)"})
  compadd -a names
}

compdef _etcdlock etcdlock
]==]

-- argparse has zsh complete each argument as a file. These lines for zsh replace those of argparse.
local NAMES, TEXT, COMMAND = '": :_etcdlock_names"', '": : "', '"*:: :_normal"'
local ZSH_ARGUMENTS = {
  run = { TEXT, COMMAND }, elect = { TEXT, TEXT, COMMAND },
  ls = { NAMES }, ["break"] = { NAMES, TEXT },
}

-- Options whose value is the name of a file.
local FILES = { ["--cacert"] = true, ["--cert"] = true, ["--key"] = true }

local function for_zsh(root)
  local text = root:get_zsh_complete():gsub("\n_etcdlock%s*$", "\n")
  -- the value of most options is no file
  text = text:gsub("(\n *%S*\"%*?(%-[a-zA-Z-]+)[^\n]*: :)_files\"", function(option, name)
    return not FILES[name] and option .. ' "' or nil
  end)
  for subcommand, arguments in pairs(ZSH_ARGUMENTS) do
    local pattern = ("(\n    %s%%)\n.-\n        %%$options \\\n).-(        && return 0)")
      :format(subcommand)
    text = text:gsub(pattern, function(before, after)
      return before .. "        " .. table.concat(arguments, " \\\n        ") .. " \\\n" .. after
    end)
  end
  return text .. ZSH
end

-- ---- fish ----

-- __etcdlock_place prints the number of the word with which the command to run begins, or "name" if
-- the present word is the name of a lock.
local FISH = [==[

set -q _etcdlock_program; or set -g _etcdlock_program etcdlock

function __etcdlock_place
    set -l left
    set -l place
    set -l is_value 0
    set -l words (commandline -poc)
    for i in (seq 2 (count $words))
        if test $is_value = 1
            set is_value 0
            continue
        end
        switch $words[$i]
            case --
                echo (math $i + 1)
                return
            case VALUE_OPTIONS
                set is_value 1
            case '-*'
            case '*'
                set place
                if test "$left" = 0
                    echo $i
                    return
                else if test -n "$left"
                    set left (math $left - 1)
                else
                    switch $words[$i]
                        case run
                            set left 1
                        case elect
                            set left 2
                        case ls break
                            set left -1
                            set place name
                        case '*'
                            set left -1
                    end
                end
        end
    end
    if test $is_value = 0 -a "$left" = 0
        echo (math (count $words) + 1)
    else if test $is_value = 0
        echo $place
    end
end

function __etcdlock_has_command
    string match -qr '^\d+$' -- (__etcdlock_place)
end

function __etcdlock_command
    set -l words (string escape -- (commandline -poc)) (commandline -ct)
    complete -C (string join ' ' -- $words[(__etcdlock_place)..])
end

function __etcdlock_names
    $_etcdlock_program ls --names 2>/dev/null </dev/null
end

complete -c etcdlock -n 'test (__etcdlock_place) = name' -xa '(__etcdlock_names)'
complete -c etcdlock -n __etcdlock_has_command -xa '(__etcdlock_command)'
]==]

local function for_fish(root, options)
  return root:get_fish_complete()
    .. FISH:gsub("VALUE_OPTIONS", (table.concat(options, " ")))
end

-- ---- all shells ----

local SHELLS = { bash = for_bash, fish = for_fish, zsh = for_zsh }

--- Runs `etcdlock completion`. Returns the exit status.
function M.completion(args)
  local root = parser.new()
  local options = check.sorted_keys(parser.list_value_options(root))
  return report.print_text(SHELLS[args.shell](root, options))
end

return M
