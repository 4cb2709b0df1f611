-- The world in which scripts run, built inside a fresh Lua state. It is handed `native`, the functions written in Rust.
--
-- Stock Lua has no read-only tables, which Redis patched in. Here a protected table is an empty one whose metatable
-- leads to the real one: reading goes through, writing always finds nothing and is refused. The few functions that
-- look past metatables are replaced by ones that know.
--
-- Invariants: no function of this file reads a global, so nothing that a script does can change it; and whoever
-- catches an error passes it through `caught`, which raises it anew when the script has been stopped.

local native, is_function = ...

local error, type, tostring, select, unpack = error, type, tostring, select, unpack
local next, pairs, rawget, rawset, rawpcall, rawxpcall = next, pairs, rawget, rawset, pcall, xpcall
local rawsetmetatable, getmetatable, loadstring, load = setmetatable, getmetatable, loadstring, load
local collectgarbage = collectgarbage
local byte, strrep, strsub, strgsub, strfind = string.byte, string.rep, string.sub, string.gsub, string.find
local tonumber = tonumber
local resume = coroutine.resume
local insert, concat, sort = table.insert, table.concat, table.sort
local caught, pause, place = native.caught, native.pause, native.place

local READ_ONLY = 'Attempt to modify a readonly table'

-- Protected tables: the empty one -> the real one.
local real = {}

local function refuse()
  error(READ_ONLY, 2)
end

-- What getmetatable gives of a protected table: nothing, but for the table of globals.
local metatables = {}

local function freeze(table, metatable)
  local shown = {}
  local way = { __index = table, __newindex = refuse, __metatable = false }
  real[shown], metatables[shown] = table, metatable
  return rawsetmetatable(shown, way), way
end

-- An error of a C function that was called from here, as if the script had called it: `name` for its own, and the place.
local function again(name, f, ...)
  local results = { rawpcall(f, ...) }
  if results[1] then
    return unpack(results, 2)
  end
  local words = caught(results[2])
  if type(words) == 'string' then
    words = strgsub(words, "'%?'", "'" .. name .. "'", 1)
    words = strgsub(words, '^[^:]*:%d+: ', '', 1)
  end
  error(words, 3)
end

local env = {}

-- Basic functions.

for _, name in pairs({ '_VERSION', 'assert', 'error', 'gcinfo', 'ipairs', 'rawequal', 'select', 'tonumber',
  'tostring', 'type', 'unpack' }) do
  env[name] = _G[name]
end

local function shown_next(table, key)
  local behind = real[table]
  if behind then
    return next(behind, key)
  end
  if type(table) ~= 'table' then
    return again('next', next, table, key)
  end
  return next(table, key)
end

env.next = shown_next

function env.pairs(table)
  if real[table] then
    return shown_next, table, nil
  end
  if type(table) ~= 'table' then
    return again('pairs', pairs, table)
  end
  return next, table, nil
end

function env.rawget(table, key)
  local behind = real[table]
  if behind then
    return rawget(behind, key)
  end
  if type(table) ~= 'table' then
    return again('rawget', rawget, table, key)
  end
  return rawget(table, key)
end

function env.rawset(table, key, value)
  if real[table] then
    error(READ_ONLY, 0)
  end
  if type(table) ~= 'table' or key == nil or key ~= key then
    return again('rawset', rawset, table, key, value)
  end
  return rawset(table, key, value)
end

function env.setmetatable(table, ...)
  if real[table] then
    error(READ_ONLY, 0)
  end
  local metatable = ...
  if type(table) ~= 'table' or (type(metatable) ~= 'table' and (metatable ~= nil or select('#', ...) == 0)) then
    return again('setmetatable', rawsetmetatable, table, ...)
  end
  local ok, result = rawpcall(rawsetmetatable, table, metatable)
  if not ok then
    error(result, 2)
  end
  return result
end

function env.getmetatable(...)
  local value = ...
  if real[value] then
    return metatables[value]
  end
  if select('#', ...) == 0 then
    return again('getmetatable', getmetatable)
  end
  return getmetatable(value)
end

-- The collector's pace is not a script's to set: one that stops it would take from all that follow.
function env.collectgarbage(what, ...)
  if what == 'stop' or what == 'restart' then
    return 0
  elseif what == 'setpause' or what == 'setstepmul' then
    return 200
  elseif what == nil or what == 'collect' or what == 'step' or what == 'count' then
    if what ~= 'count' then
      pause()
    end
    return collectgarbage(what or 'collect', ...)
  end
  return again('collectgarbage', collectgarbage, what, ...)
end

-- Text only: bytecode can break the machine that runs it.
local function load_text(text, name)
  if byte(text, 1) == 27 then
    -- As Redis says it, whose Lua reads it as text.
    local _, words = loadstring('\1', name)
    return nil, (strgsub(words, 'char%(1%)', 'char(27)'))
  end
  return loadstring(text, name)
end

function env.loadstring(text, name, ...)
  if type(text) == 'number' then
    text = tostring(text)
  end
  if type(text) ~= 'string' or (name ~= nil and type(name) ~= 'string') then
    return again('loadstring', loadstring, text, name, ...)
  end
  return load_text(text, name or text)
end

function env.load(pieces, name)
  if type(pieces) ~= 'function' then
    return again('load', load, pieces, name)
  end
  local parts = {}
  while true do
    local piece = pieces()
    if piece == nil or piece == '' then
      break
    elseif type(piece) ~= 'string' then
      error('reader function must return a string', 0)
    end
    parts[#parts + 1] = piece
  end
  return load_text(concat(parts), name or '=(load)')
end

-- Catching errors. As in Redis, pcall gives the words of an error table.

local function settle(ok, first, ...)
  if ok then
    return ok, first, ...
  end
  first = caught(first)
  if type(first) == 'table' then
    local words = first.err
    if type(words) == 'string' or type(words) == 'number' then
      first = words
    end
  end
  return false, first
end

function env.pcall(...)
  if select('#', ...) == 0 then
    return false, 'attempt to call a boolean value'
  end
  return settle(rawpcall(...))
end

local function settle_raw(ok, first, ...)
  if ok then
    return ok, first, ...
  end
  return false, caught(first)
end

function env.xpcall(f, ...)
  if select('#', ...) == 0 then
    return again('xpcall', rawxpcall, f)
  end
  local handler = ...
  return settle_raw(rawxpcall(f, function(err)
    return handler(caught(err))
  end))
end

-- Libraries.

local function library(name, replaced)
  local copy = {}
  for key, value in pairs(_G[name]) do
    copy[key] = value
  end
  for key, value in pairs(replaced) do
    copy[key] = value
  end
  env[name] = copy
  return copy
end

library('coroutine', {
  resume = function(thread, ...)
    if type(thread) ~= 'thread' then
      error("bad argument #1 to 'resume' (coroutine expected)", 2)
    end
    return settle_raw(resume(thread, ...))
  end,
})

library('table', {
  insert = function(table, ...)
    if real[table] then
      error(READ_ONLY, 0)
    end
    local count = select('#', ...)
    if type(table) == 'table' and (count == 1 or (count == 2 and type((...)) == 'number')) then
      if #table > 10000 then
        pause()
      end
      insert(table, ...)
      return
    end
    return again('insert', insert, table, ...)
  end,
  concat = function(table, ...)
    if type(table) == 'table' and #table > 1000 then
      pause()
    end
    if type(table) ~= 'table' then
      return again('concat', concat, table, ...)
    end
    local ok, result = rawpcall(concat, table, ...)
    if ok then
      return result
    end
    error((strgsub(caught(result), "'%?'", "'concat'")), 2)
  end,
  sort = function(table, ...)
    local compare = ...
    if type(table) ~= 'table' or (compare ~= nil and type(compare) ~= 'function') then
      return again('sort', sort, table, ...)
    elseif #table > 1000 then
      pause()
    end
    sort(table, compare)
  end,
})

-- Patterns. Lua's own matcher cannot be interrupted, and its worst case is the length of the text to the power of the
-- number of repetitions in the pattern. Where that is too much, another one takes its place which can.

local STEPS_MAX = 1e7
local repetitions, remembered = {}, 0

local function is_long(text, pattern)
  local count = repetitions[pattern]
  if not count then
    local _, signs = strgsub(pattern, '[*+?-]', '')
    local _, escapes = strgsub(pattern, '%%[b%d]', '')
    count = signs + escapes
    if remembered >= 1000 then
      repetitions, remembered = {}, 0
    end
    repetitions[pattern], remembered = count, remembered + 1
  end
  local steps = (#text + 1) ^ (count + 1)
  if steps > 10000 then
    pause()
  end
  return steps > STEPS_MAX
end

-- The first place where a pattern fits: start, end, and what it captured.
local function checked(ok, first, ...)
  if not ok then
    error(first, 4)
  end
  return first, ...
end

local function search(text, pattern, init, anchored)
  return checked(native.search(text, pattern, init, anchored))
end

-- An index of a string's function, counted from the end if it is negative.
local function position(init, len)
  init = init or 1
  if init < 0 then
    init = init + len + 1
  end
  return init < 1 and 1 or init
end

local function captures(first, text, last, ...)
  if select('#', ...) == 0 then
    return strsub(text, first, last)
  end
  return ...
end

local long = {}

local function anchor(pattern)
  local anchored = byte(pattern, 1) == 94
  return anchored and strsub(pattern, 2) or pattern, anchored
end

local function found_match(text, first, last, ...)
  if not first then
    return nil
  end
  return captures(first, text, last, ...)
end

function long.find(text, pattern, init)
  local rest, anchored = anchor(pattern)
  return search(text, rest, position(init, #text), anchored)
end

function long.match(text, pattern, init)
  local rest, anchored = anchor(pattern)
  return found_match(text, search(text, rest, position(init, #text), anchored))
end

function long.gmatch(text, pattern)
  local init = 1
  local function after(first, last, ...)
    if not first then
      return nil
    end
    init = last < first and last + 2 or last + 1
    return captures(first, text, last, ...)
  end
  return function()
    if init > #text + 1 then
      return nil
    end
    return after(search(text, pattern, init, false))
  end
end

-- What a match is replaced by.
local function replacement(repl, whole, ...)
  local value
  if type(repl) == 'function' then
    value = repl(...)
  elseif type(repl) == 'table' then
    value = repl[(...)]
  else
    local parts = { ... }
    return (strgsub(repl, '%%(.)', function(sign)
      if sign == '0' then
        return whole
      elseif strfind(sign, '%d') then
        local part = parts[tonumber(sign)]
        if part == nil then
          error('invalid capture index', 0)
        end
        return tostring(part)
      end
      return sign
    end))
  end
  if not value then
    return whole
  elseif type(value) ~= 'string' and type(value) ~= 'number' then
    error('invalid replacement value (a ' .. type(value) .. ')', 0)
  end
  return tostring(value)
end

function long.gsub(text, pattern, repl, max)
  local kind = type(repl)
  if kind ~= 'string' and kind ~= 'number' and kind ~= 'table' and kind ~= 'function' then
    error("bad argument #3 to 'gsub' (string/function/table expected)", 3)
  end
  if kind == 'number' then
    repl = tostring(repl)
  end
  local rest, anchored = anchor(pattern)
  local parts, init, count = {}, 1, 0
  local function put(first, last, ...)
    if not first then
      return false
    end
    count = count + 1
    parts[#parts + 1] = strsub(text, init, first - 1)
    parts[#parts + 1] = replacement(repl, strsub(text, first, last), captures(first, text, last, ...))
    init = last + 1
    if last < first then
      parts[#parts + 1] = strsub(text, init, init)
      init = init + 1
    end
    return init <= #text + 1
  end
  while count < (max or #text + 1) and put(search(text, rest, init, anchored)) and not anchored do
  end
  parts[#parts + 1] = strsub(text, init)
  return concat(parts), count
end

local function guarded(name)
  local raw, careful = string[name], long[name]
  return function(text, pattern, third, fourth)
    if type(text) ~= 'string' or type(pattern) ~= 'string' then
      return again(name, raw, text, pattern, third, fourth)
    end
    if name == 'find' and fourth then
      return raw(text, pattern, third, fourth)
    end
    if #pattern > native.PATTERN_BYTES_MAX then
      error('pattern too complex', 2)
    end
    -- Lua's own gsub takes 8 KB of the thread's stack for each call within a call.
    local calls = name == 'gsub' and (type(third) == 'function' or (type(third) == 'table' and getmetatable(third) ~= nil))
    if is_long(text, pattern) or calls then
      return careful(text, pattern, third, fourth)
    end
    return raw(text, pattern, third, fourth)
  end
end

local strings = library('string', {
  find = guarded('find'),
  match = guarded('match'),
  gmatch = guarded('gmatch'),
  gsub = guarded('gsub'),
  rep = function(text, count)
    if type(text) ~= 'string' or type(count) ~= 'number' then
      return again('rep', strrep, text, count)
    end
    if #text == 0 then
      return ''
    end
    if #text * count > 10000 then
      pause()
    end
    return strrep(text, count)
  end,
})

library('math', { random = native.random, randomseed = native.randomseed })
env.os = { clock = os.clock }
env.bit, env.struct, env.cmsgpack, env.cjson = native.bit, native.struct, native.cmsgpack, native.cjson()

-- The handler of errors that nobody caught: a table with the words, and where that was.
local function handler(err)
  local source, line = place()
  err = caught(err)
  if type(err) ~= 'table' then
    err = { err = 'ERR ' .. tostring(err) }
  end
  if source then
    err.source, err.line = source, line
  end
  return err
end

local redis = native.redis
env.redis = redis

-- An error is given as the table that redis.call raises.
function redis.pcall(...)
  local ok, value = rawpcall(redis.call, ...)
  if ok then
    return value
  end
  return caught(value)
end

-- Everything is built: now it is closed.

local function missing(_, name)
  if type(name) ~= 'string' and type(name) ~= 'number' then
    error('Second argument to luaRegisterErrorHandler must be a string or number', 2)
  end
  error("Script attempted to access nonexistent global variable '" .. name .. "'", 2)
end

local globals_meta = freeze({ __index = missing })

for key, value in pairs(env) do
  if type(value) == 'table' then
    env[key] = freeze(value)
  end
end

local string_meta = getmetatable('')
string_meta.__index = strings
string_meta.__metatable = freeze({ __index = env.string })

local globals, globals_way = freeze(env, globals_meta)
env._G = globals
if not is_function then
  env.__redis__err__handler = handler
end
rawsetmetatable(env, { __index = missing })

local world = { globals = globals, env = env }

function world.run(f)
  return rawxpcall(f, handler)
end

function world.call(f, keys, args)
  return rawxpcall(function()
    return f(keys, args)
  end, handler)
end

-- While a library is loaded, only the functions for loading are there.
local loading = rawsetmetatable({ redis = freeze(rawsetmetatable(native.loading, { __index = missing })) }, { __index = missing })

function world.load(f)
  globals_way.__index = loading
  local ok, err = rawpcall(f)
  globals_way.__index = env
  if not ok then
    err = caught(err)
  end
  return ok, err
end

return world
