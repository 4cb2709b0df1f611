return 1 + 1, 'a' .. 1, 10 / 4, 7 % 3, -7 % 3, 7 % -3, 2 ^ 10, -2 ^ 2, not nil, #'abc'
----
local t = {} for i = 1, 10 do t[i] = i * i end return t, #t
----
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end return fib(15)
----
local a, b, c = (function() return 1, 2, 3 end)() return a, b, c, ((function() return 1, 2 end)())
----
local s = 0 for k, v in pairs({a = 1, b = 2, c = 3, 10, 20, 30}) do s = s + v end return s
----
return {a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, 1, 2, 3, [10] = 10, [2.5] = 1, [true] = 2}
----
local t = {} for i = 1, 100 do t['key' .. i] = i end for i = 1, 50 do t['key' .. i] = nil end for i = 200, 220 do t['key' .. i] = i end return t
----
local x = nil return x.y
----
return undefinedglobal.y
----
local t = {} return t.a.b
----
local t = {} t.a.b = 1
----
local t = {} return t:method()
----
undefinedfunction()
----
local t = {} t.x()
----
local t = {} t[1]()
----
local up local function f() return up.x end return f()
----
local up local function f() up.x = 1 end f()
----
return 1 + nil
----
local x = {} return x + 1
----
local x = {} return 1 .. x
----
return 'a' + 1
----
return '10' + 5, '0x10' * 2, ' 5 ' - 1, 10 .. 20
----
return 1 < 'x'
----
return {} < {}
----
return nil < 1
----
return 'a' < 'b', 'a' <= 'a', 'Z' < 'a', '' < 'a', 'a\0b' < 'a\0c'
----
error('words')
----
error('words', 0)
----
error('words', 2)
----
local function f() error('words', 2) end
f()
----
error({code = 5})
----
error()
----
return pcall(error, 'words')
----
return pcall(error, 'words', 2)
----
return pcall(function() error('inner') end)
----
return pcall(function() local x = nil; x() end)
----
return pcall(pcall)
----
return xpcall(function() error('x') end, function(e) return 'handled ' .. e end)
----
return xpcall(function() return 1, 2, 3 end, print)
----
assert(false)
----
assert(false, 'words')
----
assert(nil, {1})
----
return assert(1, 2, 3)
----
return select('#', 1, nil, nil), select(2, 'a', 'b', 'c'), select(-1, 'a', 'b')
----
return select(0)
----
return tonumber('0x1f'), tonumber('1e3'), tonumber('  12  '), tonumber('z', 36), tonumber('8', 8), tonumber('7', 8), tonumber(''), tonumber('1 2'), tonumber('ff', 16), tonumber('-ff', 16), tonumber('inf'), tonumber('1e'), tonumber('0x'), tonumber('.5'), tonumber('5.')
----
return tostring(1e15), tostring(1e14), tostring(123456789012345), tostring(0.1), tostring(1/0), tostring(-1/0), tostring(1e100), tostring(3.14159265358979)
----
return tostring(nil), tostring(true), type(tostring({})), type(nil)
----
return string.format('%5d|%-5d|%05d|%+d|% d|%x|%X|%#x|%o|%c|%e|%g|%G|%f|%.3f|%10.2f|%s|%q|%%', 42, 42, 42, 42, 42, 255, 255, 255, 8, 65, 1.5, 1e20, 1e-10, 1.5, 2.0005, 3.14159, 'str', 'q"\n\0\\')
----
return string.format('%s %s', 1)
----
return string.format('%d', 'x')
----
return string.format('%d', '10')
----
return string.format('%y', 1)
----
return string.format('%10s|%-10s|%.2s', 'abc', 'abc', 'abc')
----
return string.format('%#g %#.3x %.0f %#.0f %5.1f %-8.3e|', 1, 5, 2.5, 2, -0.05, 12345)
----
return string.format('%i %u', -5, 5), string.format('%5.3d', 7)
----
return ('hello world'):find('o w'), ('hello'):find('l'), ('hello'):find('xyz'), ('hello'):find(''), ('hello'):find('', 10), ('a.b'):find('.', 1, true), ('hello'):find('l', -2)
----
return ('hello world'):match('(%w+) (%w+)'), ('key=val'):match('(%w+)=(%w+)'), ('abc'):match('()b()'), ('  x '):match('^%s*(.-)%s*$')
----
return ('hello world'):gsub('o', '0'), ('hello'):gsub('', '-'), ('abc'):gsub('%w', '%0%0'), ('abc'):gsub('b', {b = 'X'}), ('abc'):gsub('%w', function(c) if c == 'b' then return 'Y' end end), ('hello world'):gsub('(%w+) (%w+)', '%2 %1'), ('abc'):gsub('.', 'x', 2)
----
return ('abc'):gsub('a', '%2')
----
return ('abc'):gsub('a', '%')
----
return ('abc'):gsub('(a', 'x')
----
return ('abc'):find('[a')
----
return ('abc'):find('%')
----
local r = {} for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do r[#r + 1] = k .. v end return r
----
local r = {} for w in ('one two  three'):gmatch('%a+') do r[#r + 1] = w end return r
----
return ('x'):rep(3), ('ab'):rep(0), ('ab'):rep(-1), ('abc'):reverse(), ('abc'):upper(), ('ABC'):lower(), ('abc'):len(), ('abc'):byte(1, -1), string.char(72, 105)
----
return ('hello'):sub(2, 3), ('hello'):sub(-3), ('hello'):sub(2), ('hello'):sub(0), ('hello'):sub(10), ('hello'):sub(-100, 2), ('hello'):sub(3, 2)
----
return string.char(256)
----
return string.rep()
----
return ('x'):rep({})
----
local s = string.rep return s()
----
return string.rep('x', 'y')
----
return math.floor(3.7), math.ceil(3.2), math.abs(-5), math.max(1, 5, 3), math.min(4, 2, 8), math.fmod(7, 3), math.fmod(-7, 3), math.modf(3.7), math.modf(-3.7), math.frexp(8), math.ldexp(0.5, 4), math.sqrt(16), math.pow(2, 8), math.huge, -math.huge, math.pi
----
return math.floor('x')
----
return math.floor()
----
return math.max()
----
local t = {5, 2, 8, 1, 9, 3} table.sort(t) return t
----
local t = {5, 2, 8, 1, 9, 3} table.sort(t, function(a, b) return a > b end) return t
----
local t = {} for i = 1, 100 do t[i] = {k = (i * 37) % 10, i = i} end table.sort(t, function(a, b) return a.k < b.k end) local r = {} for i, v in ipairs(t) do r[i] = v.i end return r
----
table.sort({3, 1, 'x'})
----
local t = {3, 2, 1, 4, 5, 9, 8, 7} table.sort(t, function(a, b) return true end)
----
local t = {1, 2, 3} table.insert(t, 4) table.insert(t, 1, 0) table.insert(t, 3, 'x') return t, table.remove(t), table.remove(t, 1), t
----
table.insert({}, 1, 2, 3)
----
table.insert(nil, 1)
----
local t = {1, 2, 3} return table.concat(t), table.concat(t, ','), table.concat(t, ',', 2, 3), table.concat({}, ','), table.concat({1, 'a', 2.5}, '-')
----
return table.concat({1, {}, 3})
----
return table.getn({1, 2, 3}), table.maxn({[1] = 1, [10] = 2, [5.5] = 3})
----
return unpack({1, 2, 3}), unpack({1, 2, 3}, 2), unpack({1, 2, 3}, 2, 3), unpack({}, 1, 3)
----
return select('#', unpack({}, 1, 100))
----
return unpack({}, 1, 1e8)
----
return next({}), next({1}), next({a = 1}), rawget({5}, 1), rawequal('a', 'a'), rawset({}, 'a', 1)
----
return next({}, 'nope')
----
local t = setmetatable({}, {__index = function(t, k) return k .. '!' end}) return t.foo, t[1]
----
local t = setmetatable({}, {__index = {a = 1}}) return t.a, t.b
----
local log = {} local t = setmetatable({}, {__newindex = function(t, k, v) rawset(t, k, v .. '?') end}) t.a = 'x' t.a = 'y' return t
----
local mt = {__add = function(a, b) return 'add' end, __sub = function() return 'sub' end, __mul = function() return 'mul' end, __div = function() return 'div' end, __mod = function() return 'mod' end, __pow = function() return 'pow' end, __unm = function() return 'unm' end, __concat = function(a, b) return 'concat' end, __eq = function() return true end, __lt = function() return true end, __le = function() return false end, __call = function(self, ...) return 'call', ... end, __tostring = function() return 'str' end, __len = function() return 42 end}
local a, b = setmetatable({}, mt), setmetatable({}, mt)
return a + 1, 1 - a, a * b, a / b, a % b, a ^ b, -a, a .. 'x', 'x' .. a, 1 .. a, a == b, a < b, a <= b, a > b, a ~= b, a(1, 2), tostring(a), #a
----
return setmetatable({}, {__metatable = 'locked'}) and getmetatable(setmetatable({}, {__metatable = 'locked'}))
----
setmetatable(setmetatable({}, {__metatable = 'locked'}), {})
----
return getmetatable('').__index == string
----
setmetatable({}, 5)
----
setmetatable({})
----
local co = coroutine.create(function(a, b) local c = coroutine.yield(a + b) local d, e = coroutine.yield(c * 2) return d + e end)
return {coroutine.resume(co, 1, 2)}, {coroutine.resume(co, 10)}, {coroutine.resume(co, 3, 4)}, {coroutine.resume(co)}, coroutine.status(co)
----
local gen = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) return gen(), gen(), gen(), gen()
----
local f = coroutine.wrap(function() error('inside') end) f()
----
local f = coroutine.wrap(function() error({}) end) f()
----
local co = coroutine.create(function() error('oops') end) return coroutine.resume(co)
----
local co co = coroutine.create(function() return coroutine.status(co), coroutine.resume(co) end) return coroutine.resume(co)
----
coroutine.yield(1)
----
return coroutine.resume(coroutine.create(function() return pcall(coroutine.yield, 1) end))
----
local r = {} for v in coroutine.wrap(function() for i = 1, 5 do coroutine.yield(i * i) end end) do r[#r + 1] = v end return r
----
coroutine.create(1)
----
coroutine.resume(1)
----
local fs = {} for i = 1, 3 do fs[i] = function() i = i + 1 return i end end return fs[1](), fs[1](), fs[2](), fs[3]()
----
local function counter() local n = 0 return function() n = n + 1 return n end, function() return n end end local inc, get = counter() inc() inc() return get()
----
local a = {} do local x = 1 a.f = function() return x end a.g = function(v) x = v end end a.g(5) return a.f()
----
local r = {} for i = 1, 3 do local j = i * 2 r[i] = function() return i, j end end return r[1](), r[2](), r[3]()
----
local i = 1 local t = {} i, t[i] = i + 1, 20 return i, t
----
local a, b, c = 1 return a, b, c
----
local a = {1, 2, 3} local b, c = unpack(a) a[1], a[2] = a[2], a[1] return a, b, c
----
local function f(...) return select('#', ...), ... end return f(1, nil, 3), (f(1, 2))
----
local function f(...) local a, b = ... return a, b, {...} end return f(1, 2, 3)
----
local function f(a, ...) return a, select('#', ...) end return f(), f(1), f(1, 2, 3)
----
return (function(...) return ... end)(1, 2, 3), {(function(...) return ... end)(1, 2, 3)}
----
local t = {(function() return 1, 2, 3 end)(), (function() return 1, 2, 3 end)()} return t, #t
----
local x = 5 while x > 0 do x = x - 1 if x == 2 then break end end return x
----
local x = 0 repeat local y = x x = x + 1 until y >= 3 return x
----
local fs = {} local x = 0 repeat local y = x fs[#fs + 1] = function() return y end x = x + 1 until y >= 2 return fs[1](), fs[2](), fs[3]()
----
local s = 0 for i = 10, 1, -3 do s = s + i end return s
----
local s = 0 for i = 1, 0 do s = 1 end return s
----
local n = 0 for i = 1, 2, 0.1 do n = n + 1 end return n
----
for i = 'a', 2 do end
----
for i = 1, {} do end
----
for i = 1, 2, nil do end
----
for k in 5 do end
----
for k in nil do end
----
local a = nil or 'default' local b = false and 1 local c = 1 and 2 or 3 local d = nil and 1 or 3 return a, b, c, d, not a == nil, (1 == 1) ~= (2 == 3)
----
local x, y = 5, 10 local r = x > y and 'gt' or x < y and 'lt' or 'eq' return r, x > 3 and y > 3, x > 30 or y > 3, not (x > 3), not (x > y or y < x)
----
local function f(x) return x end local t = {f(1) or f(2), f(nil) or f(2), f(nil) and f(2), f(1) and f(2)} return t, f(nil) or false, not f(nil)
----
local a = 1 local t = {a == 1, a ~= 1, a < 2, a > 2, a <= 1, a >= 2, not (a == 1)} return t
----
return 1 .. 2 .. 3, 'a' .. 'b' .. 'c' .. 1 .. 2, ('x'):rep(3) .. 'y'
----
return 2 ^ 3 ^ 2, -2 ^ 2, 2 * 3 + 4 * 5, (2 + 3) * 4, 10 - 2 - 3, 100 / 10 / 2, 'a' .. 'b' == 'ab', 1 + 2 < 4, not 1 == 2
----
return 0x10, 1e2, .5, 3., 0xA.8p0 == nil
----
return 'a\65\066\n\t\\\"\'\z'
----
return [[
first newline skipped]], [==[a]]b]==], 'line\
continued'
----
return #[[x]], --[[comment]] 1 --[==[ long
comment ]==] , 2 -- end
----
goto = 1 return goto
----
local function f() return end return f(), (f())
----
return loadstring('return 1 + 1')(), loadstring('syntax error here'), loadstring('return ...', 'name')(5)
----
return loadstring('x =', '=name')
----
return loadstring('error("e")', '@file')
----
return pcall(loadstring('error("e")', '@file'))
----
return pcall(loadstring('error("e")', 'some code here'))
----
return pcall(loadstring('error("e")', 'some code\nwith lines'))
----
return pcall(loadstring('error("e")', ('long'):rep(50)))
----
return pcall(loadstring('error("e")', '@' .. ('long'):rep(50)))
----
return load(function() return nil end)
----
local parts = {'return ', '1', nil} local i = 0 return load(function() i = i + 1 return parts[i] end)()
----
return load(function() return {} end)
----
load('return 1')
----
loadstring(nil)
----
return tostring(-0.0)
----
return pcall(nil)
----
return pcall({}, 1)
----
local x return pcall(x)
----
return table.sort({{}, {}})
----
return ('x'):find('(x')
----
return load(function() error('in reader') end)
----
return coroutine.wrap(function() local x = nil + 1 end)()
----
return xpcall(function() local x = nil + 1 end, function(e) error('again') end)
----
return pcall(function() return setmetatable({}, {__index = function(t, k) error('no ' .. k, 2) end}).field end)
----
return pcall(setmetatable({}, {__call = function(self, a) return a end}), 5)
----
local ok, e = pcall(string.rep, 'x', -1) return ok, e
----
x = = 1
----
for
----
if x then
----
local function
----
return 'unfinished
----
return "unfinished
----
return [[unfinished
----
return 3x
----
return 0x
----
x = }
----
return @
----
f(
----
a.b:c = 1
----
local x = 1 x
----
break
----
return ...
----
local function f() return ... end
----
f
(1)
----
while true do
----
do
 local x

----
if x then else elseif
----
local a <const> = 1
----
return 1,
----
local t = {1, 2,, 3}
----
a = 1 b = 2 return a + b, a, b
----
local t = {} t[nil] = 1
----
local t = {} t[0/0] = 1
----
local t = {[1.0] = 'a', ['1'] = 'b'} return t[1], t['1'], t[1.0]
----
local t = {} t[1] = 1 t[2] = 2 t[4] = 4 return #t
----
local t = {1, 2, nil, 4} return #t
----
local t = {n = 1, 1, 2, 3, nil} return #t
----
local t = {} for i = 1, 20 do t[i] = i end for i = 11, 20 do t[i] = nil end return #t
----
local t = {} for i = 20, 1, -1 do t[i] = i end return #t, t
----
return 1/0 > 0, -1/0 < 0, 0/0 ~= 0/0, 1e308 * 10 == 1/0
----
return 5 % 0, -5 % 0, 5.5 % 2, -5.5 % 2, 5 % -2, 1e15 % 7, 5 % (1/0)
----
local function f() return f() end
local function g() local x = f2 return x end return g()
----
local function deep(n) if n == 0 then return 'done' end return deep(n - 1) end return deep(100000)
----
local function deep(n) return 1 + deep(n + 1) end return pcall(deep, 1)
----
local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x
----
local a, b = setmetatable({}, {}), setmetatable({}, {}) getmetatable(a).__index = b getmetatable(b).__index = a return a.x
----
local t = {10, 20, 30} local r = {} for i, v in ipairs(t) do r[i] = v end return r
----
return ipairs()
----
return ipairs({1}) and 1
----
return type(ipairs), type(pairs({})), select('#', pairs({}))
----
local r = {} table.foreach({1, 2, a = 3}, function(k, v) r[#r + 1] = tostring(k) .. v end) return r
----
return table.foreachi({1, 2, 3}, function(i, v) if v == 2 then return 'found' end end)
----
return collectgarbage('count') > 0, collectgarbage(), collectgarbage('stop')
----
collectgarbage('nonsense')
----
return _VERSION, _G._G == _G, type(_G.string)
----
local s = 'x' s.y = 1
----
local s = 'x' return s.y, s.len, #s
----
return (5).x
----
local f = function() end f.x = 1
----
return #5
----
return -{}
----
return {} .. 'x'
----
local a = 'x' return a.b.c.d
----
local a = {b = {}} return a.b.c.d
----
local a = {} return a[1][2]
----
local i, a = 1, {} return a[i][2]
----
local a = {} a.x.y.z = 1
----
local function f(t) return t.x.y end return f({})
----
string.nope()
----
('x'):nope()
----
local t = {m = 5} t:m()
----
local function f(a, b) return a.x + b end f({}, 1)
----
local x = 'a' local y = x + 1
----
local t = {} local y = t.a + 1
----
local t = {} local y = t[1] .. 'x'
----
return (nil)()
----
return ({})()
----
return ('x')()
----
local t = {{}} t[1].x.y()
----
-- many values
local t = {} for i = 1, 200 do t[i] = i end local function f(...) return select('#', ...) end return f(unpack(t)), {unpack(t)}
----
return {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, x = 1, unpack({1, 2, 3})}
----
local s = {} for i = 1, 300 do s[i] = 'local a' .. i .. ' = 1' end return loadstring(table.concat(s, '\n'))
----
local s = {} for i = 1, 300 do s[i] = 'a' end return loadstring('return ' .. table.concat(s, '(') )
----
return loadstring('return ' .. ('('):rep(300) .. '1' .. (')'):rep(300))
----
return loadstring('x = ' .. ('{'):rep(300) .. ('}'):rep(300))
----
return #loadstring('return ' .. ('1 + '):rep(1000) .. '1')() == nil
----
return loadstring('return ' .. ('a or '):rep(1000) .. '1')()
----
return loadstring('return ' .. ('nil .. '):rep(150) .. '1')
----
return pcall(string.rep)
----
return pcall(string.rep, 'x', {})
----
return string.gsub('hello', 'l', function() error('in callback') end)
----
return string.gsub('x', 'x', function() return {} end)
----
return pcall(string.gsub, 'x', 'x')
----
return ('x'):gsub('x', true)
----
return tostring(setmetatable({}, {__tostring = function() return 5 end}))
----
return os.clock() >= 0
----
return ('%d'):format(3.7), ('%d'):format(-3.7), ('%x'):format(-1), ('%5s'):format('ab'), ('%c%c'):format(0x41, 0x42)
----
return math.random(0)
----
return math.random(2, 1)
----
return string.byte('abc', 0), string.byte('abc', 10), string.byte('')
----
return ('a,b,,c'):find(',', 1, true), ('a\0b'):find('\0', 1, true), ('a\0b'):len(), ('a\0b'):find('%z')
----
return ('THE (quick) fox'):find('%((%a+)%)'), ('f(a(b)c)d'):match('%b()'), ('THE (quick) fox'):gsub('%f[%a]%a+', 'W')
----
return ('x = 1 -- comment'):match('^(.-)%s*%-%-'), ('2024-01-15'):match('(%d+)-(%d+)-(%d+)')
----
return ('abc'):gsub('', ''), ('abc'):gsub('x*', '-'), ('abc'):gsub('$', 'x'), ('abc'):gsub('^a', 'x'), ('aaa'):gsub('^a', 'x')
