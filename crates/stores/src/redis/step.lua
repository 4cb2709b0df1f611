-- Runs steps of one kind, one after the other. Their library and body replace the lines LIBRARY and STEP, the number of their arguments
-- ARGS.
--
-- Arguments: now; then for each key how many steps it has, and for each step '=' if it is the same as the one before, else the time
-- that it sees or '-', and its arguments. Returns now, and for each step how many numbers its reply has, and these; 0 if the state is of
-- another kind; a text if the server rejected the read or write of the key, which has changed nothing.
LIBRARY
local function step(state, now, a)
STEP
end
local reply, n, arg, a, seen = {now}, 1, 2, nil, nil
for _, key in ipairs(KEYS) do
  local state, version, writers, expired, failed = read(key)
  local put, ttl
  -- An expired state must not reappear when the clock jumps back.
  if expired then put, ttl = '', 0 end
  local steps, before = tonumber(ARGV[arg]), n
  arg = arg + 1
  for _ = 1, steps do
    if ARGV[arg] == '=' then
      arg = arg + 1
    else
      seen, a, arg = tonumber(ARGV[arg]) or now, {unpack(ARGV, arg + 1, arg + ARGS)}, arg + ARGS + 1
    end
    if not failed then
      local result = {step(state, seen, a)}
      if result[1] then
        put, ttl, state = result[1], result[2], nil
        if ttl > 0 then state = put end
      end
      n = n + 1
      reply[n] = math.max(0, #result - 2)
      for i = 3, #result do reply[n + i - 2] = result[i] end
      n = n + reply[n]
    end
  end
  if put then failed = write(key, version, writers, put, ttl) end
  if failed then
    -- Other keys may have been written already, so it does not fail the script.
    for i = before + 1, n do reply[i] = nil end
    for i = 1, steps do reply[before + i] = failed end
    n = before + steps
  end
end
return reply
