-- Runs one step for each key, and puts their states together or not at all. The functions `steps` stand before it.
--
-- Arguments: now; 'all' or 'any' of the steps that must pass; then for each key the number of its step, how many arguments it has,
-- these, and as many with which it consumes nothing. A step passes if the first number of its reply is 1. Returns now, and for each step
-- how many numbers its reply has, and these. An error has changed nothing, unless it is PARTIAL.
local keys, arg, passing = {}, 3, 0
for i, key in ipairs(KEYS) do
  local state, version, writers, expired, failed = read(key)
  if failed then return redis.error_reply(failed) end
  local step, count = steps[tonumber(ARGV[arg])], tonumber(ARGV[arg + 1])
  local args, idle = {unpack(ARGV, arg + 2, arg + 1 + count)}, {unpack(ARGV, arg + 2 + count, arg + 1 + 2 * count)}
  arg = arg + 2 + 2 * count
  local result = {step(state, now, args)}
  if result[1] == nil then return redis.error_reply('OTHERTYPE the key holds a state of another kind') end
  if result[3] == 1 then passing = passing + 1 end
  keys[i] = {key = key, state = state, version = version, writers = writers, expired = expired, step = step, idle = idle, result = result}
end
local commits = passing > 0
if ARGV[2] == 'all' then commits = passing == #KEYS end
local reply, written = {now}, false
for _, k in ipairs(keys) do
  local failed
  if not commits and k.result[3] == 1 then
    k.result = {k.step(k.state, now, k.idle)}
    k.result[1] = false
  end
  if k.result[1] then
    failed = write(k.key, k.version, k.writers, k.result[1], k.result[2])
  elseif k.expired then
    failed = write(k.key, k.version, k.writers, '', 0)
  end
  if failed then
    if written then failed = 'PARTIAL ' .. failed end
    return redis.error_reply(failed)
  end
  written = written or k.expired or k.result[1]
  reply[#reply + 1] = #k.result - 2
  for i = 3, #k.result do reply[#reply + 1] = k.result[i] end
end
return reply
