-- Reading and writing records (cas/record.rs has their form), for the scripts of steps and jobs. The first argument of a script is now,
-- or '-' for the server's time. SLACK_MS is how much longer than its state a record is kept.
local now, time = tonumber(ARGV[1]), nil
if not now then
  time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The state of a key or nil, its version and writers, whether it has expired and was not removed yet, and why it cannot be read.
local function read(key)
  local raw = redis.pcall('GET', key)
  if not raw then return nil, nil, '-' end
  if type(raw) ~= 'string' then return nil, nil, nil, nil, raw.err end
  local version, expires, writers, state = string.match(raw, '^(%d+) (%S+) (%S+)\n(.*)$')
  if not version then
    return nil, nil, nil, nil, 'CORRUPT the key holds a value that this store did not write: use a prefix of its own'
  end
  if state == '' then return nil, version, writers end
  if expires ~= '-' and now >= tonumber(expires) then return nil, version, writers, true end
  return state, version, writers
end

-- Writes a state, or a tombstone if it is '', and returns why it was rejected, if it was.
local function write(key, version, writers, state, ttl)
  if not version then
    -- A key that is created anew must have no version of its past.
    time = time or redis.call('TIME')
    version = time[1] * 1000000 + time[2]
  end
  local expires = '-'
  if state ~= '' then expires = string.format('%.0f', now + ttl) end
  local record = string.format('%.0f %s %s\n', version + 1, expires, writers) .. state
  if ttl + SLACK_MS < 1e15 then return redis.pcall('SET', key, record, 'PX', ttl + SLACK_MS).err end
  return redis.pcall('SET', key, record).err
end
