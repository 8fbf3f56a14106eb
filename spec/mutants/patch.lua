--- Returns |text|, the content of the file of the known mutant |mutant|, with |mutant.to| in place
-- of |mutant.from|. Raises if |mutant.from| does not occur exactly once.
return function(text, mutant)
  local first, last = text:find(mutant.from, 1, true)
  assert(first and not text:find(mutant.from, last + 1, true),
    ("%s: the text of the known mutant %q must occur once"):format(mutant.file, mutant.name))
  return text:sub(1, first - 1) .. mutant.to .. text:sub(last + 1)
end
