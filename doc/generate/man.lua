--- Prints the manual page of the command, made from doc/command.md: `make install`.
local HEAD = [[
.TH ETCDLOCK 1 "" etcdlock "User Commands"
.SH NAME
etcdlock \- run commands under distributed locks in etcd, and list the locks
.SH SYNOPSIS
.nf
etcdlock run NAME [OPTION...] [\-\-] CMD [ARG...]
etcdlock ls [OPTION...] [PREFIX]
etcdlock break NAME TOKEN
etcdlock elect NAME VALUE [OPTION...] [\-\-] CMD [ARG...]
etcdlock elect \-\-listen [\-\-json] NAME
etcdlock doctor
etcdlock completion SHELL
.fi
.SH DESCRIPTION]]

local NAVIGATION = "\194\183" -- the dot between the links at the top of the page

-- Returns |text| for roff: as it is, without a meaning for roff.
local function escape(text)
  return (text:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("^[.']", "\\&%0"))
end

-- Returns the Markdown |text| for roff: code is bold, a link is its text.
local function inline(text)
  text = text:gsub("%[([^%[%]]+)%]%([^)]*%)", "%1"):gsub("%*%*", "`")
  return (escape(text):gsub("`([^`]*)`", "\\fB%1\\fR"))
end

local block = {} -- the lines of the present paragraph, list item or cell

local function finish_block()
  if block[1] then print(inline(table.concat(block, " "))) end
  block = {}
end

local function begin_block(macro, line)
  finish_block()
  print(macro)
  block[1] = line
end

-- Prints a row of a table: its first cell, and below it the others.
local function print_row(line)
  local first, rest = line:match "^| *(.-) *|[ |]*(.-)[ |]*$"
  begin_block(".TP", first)
  finish_block()
  block[1] = rest:gsub(" | ", ": ")
end

print(HEAD)
local is_code, is_table = false, false
for line in io.lines "doc/command.md" do
  local marks, heading = line:match "^(##+) (.*)"
  local number, item = line:match "^(%d+%.) +(.*)"
  if line:find "^```" then
    begin_block(is_code and ".fi\n.RE" or ".PP\n.RS\n.nf")
    is_code = not is_code
  elseif is_code then
    print(escape(line))
  elseif heading then
    begin_block((marks == "##" and ".SH " or ".SS ") .. inline(heading))
  elseif line:find "^|" then
    local head = not is_table and line:match "^| (%a[^|]*) |"
    if head then begin_block(".PP\n.I " .. head) end
    if is_table and not line:find "^|%-" then print_row(line) end
    is_table = true
  elseif number or line:find "^%- " then
    begin_block(number and ".IP " .. number .. " 3" or ".IP \\(bu 2", item or line:sub(3))
  elseif line == "" then
    finish_block()
    is_table = false
  elseif block[1] then
    block[#block + 1] = line:match "^ *(.*)"
  elseif not line:find "^# " and not line:find(NAVIGATION) then
    begin_block(".PP", line)
  end
end
finish_block()
print '.SH "SEE ALSO"\n.BR etcdctl (1),\n.BR flock (1)'
