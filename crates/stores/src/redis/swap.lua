-- Replaces a record if its version is still the expected one. Arguments: the version or '-', the record, reclaim_ms or '-'.
local raw = redis.call('GET', KEYS[1])
local version = '-'
if raw then version = string.match(raw, '^(%d+) ') or '?' end
if version ~= ARGV[1] then return {0, raw} end
if ARGV[3] == '-' then
  redis.call('SET', KEYS[1], ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return {1}
