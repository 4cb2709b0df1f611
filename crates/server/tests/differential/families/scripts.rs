//! Templates of scripts and functions, and the texts that they send. A text touches the key that it is given and no other,
//! so that it runs on any shard; what the servers remember of scripts and functions is made anew in each group.

pub(crate) const TEMPLATES: &[&str] = &[
    "EVAL {lua} 0",
    "EVAL {lua} 0 {v}*",
    "EVAL {lua} {num} {v}*",
    "EVAL {luakey} 1 {key} {v} {m}",
    "EVAL {luakey} 1 {key} {num} {v}",
    "EVAL {luakey} 1 {str} {v} {m}",
    "EVAL {luakey} 1 {hash} {f} {v}",
    "EVAL {luakey} 1 {list} {v} {m}",
    "EVAL {luakey} 1 {set} {m} {m}",
    "EVAL {luakey} 1 {zset} {m} {m}",
    "EVAL {luakey} 1 {stream} {f} {v}",
    "EVAL {luajson} 0 {json}",
    "EVAL {luabytes} 0 {v} {float} {num}",
    "EVAL {luaprobe} 0 {v}",
    "EVAL_RO {luakey} 1 {key} {v} {m}",
    "EVAL_RO {lua} 0",
    "EVAL {shebang} 1 {str} {v}",
    "EVAL_RO {shebang} 1 {str} {v}",
    "EVAL {lua} {bad}",
    "! EVAL {luaone} 0 ; EVALSHA {sha} 0 {v}*",
    "EVALSHA_RO {badsha} 0",
    "EVALSHA {badsha} {bad}",
    "! SCRIPT FLUSH [SYNC|ASYNC] ; EVALSHA {sha} 0 ; SCRIPT LOAD {luaone} ; EVALSHA {sha} 0 ; EVALSHA_RO {sha} 0 ; SCRIPT EXISTS {sha} {badsha}",
    "! SCRIPT FLUSH ; SCRIPT EXISTS {sha}",
    "SCRIPT LOAD {lua}",
    "SCRIPT LOAD {luaprobe}",
    "SCRIPT FLUSH {bad}",
    "SCRIPT KILL",
    "SCRIPT HELP",
    "! FUNCTION FLUSH ; FUNCTION LOAD {lib} ; FUNCTION LIST [WITHCODE] ; FUNCTION STATS ; FCALL f 1 {key} {v} {m} ; FCALL_RO f 1 {key} {v} {m} ; FUNCTION DUMP ; FUNCTION LIST LIBRARYNAME {glob}",
    "! FUNCTION LOAD REPLACE {lib} ; FCALL f 1 {str} {v} {m} ; FCALL f (0|{bad}|-1|9) {v} ; FCALL_RO f 1 {str} {v}",
    "! FUNCTION FLUSH [SYNC|ASYNC] ; FUNCTION LOAD {badlib} ; FUNCTION LIST",
    "! FUNCTION FLUSH ; FUNCTION RESTORE {dump} [FLUSH|APPEND|REPLACE] ; FCALL restored 1 {str} ; FUNCTION RESTORE {dump} [APPEND|REPLACE|FLUSH|{bad}] ; FUNCTION DELETE restored ; FUNCTION DELETE restored",
    "! FUNCTION FLUSH ; FUNCTION LOAD {readlib} ; FCALL_RO f 1 {key} ; FCALL f 1 {key}",
    "! FUNCTION RESTORE {v} [FLUSH|{bad}]",
    "! FUNCTION FLUSH {bad}",
    "FUNCTION LIST {bad}",
    "FUNCTION LIST LIBRARYNAME",
    "FUNCTION LOAD {bad} {lib}",
    "FUNCTION KILL",
    "FUNCTION HELP",
    "FCALL nothing 0",
    "FCALL_RO nothing 0",
    "SET {str} {v}",
    "HSET {hash} {f} {v}",
    "RPUSH {list} {v}+",
    "SADD {set} {m}+",
    "ZADD {zset} {score} {m}",
    "XADD {stream} {newid} {f} {v}",
    "DEL {key}",
];

/// Conversions, errors, and Lua itself.
pub(crate) const LUA: &str = r##"
"return 1" "return 'a'" "return nil" "return true" "return false" "return 1.9" "return -1.9" "return {1,2,{3,'x',false,true}}"
"return {1,nil,3}" "return {}" "return {ok='fine'}" "return {err='MY words'}" "return {err='x'}" "return redis.error_reply('x')"
"return redis.error_reply('MY thing')" "return redis.error_reply(1)" "return redis.status_reply('x')" "return redis.status_reply()"
"return {double=3.5}" "return {map={a=1}}" "return {set={a=true}}" "return {big_number='123'}"
"return {verbatim_string={format='txt',string='abc'}}" "redis.setresp(3) return {true,false}" "redis.setresp(4)" "redis.setresp()"
"return redis.call('nosuch')" "return redis.pcall('nosuch')" "return redis.call('get')" "return redis.call()" "return redis.call({})"
"return {pcall(redis.call,'nosuch')}" "return redis.call('multi')" "return redis.call('eval','return 1',0)" "return redis.call('ping')"
"return redis.call('echo',ARGV[1] or 'x')" "return redis.call('publish','c','m')" "return redis.call('blpop','x',0)"
"return redis.sha1hex(ARGV[1] or '')" "return redis.sha1hex()" "return redis.log(1)" "return redis.log(9,'x')" "return redis.set_repl(8)"
"return redis.replicate_commands()" "return redis.breakpoint()" "return redis.acl_check_cmd('set','a','b')" "return redis.acl_check_cmd('nosuch')"
"error('x')" "error('x',0)" "error('x',2)" "error({err='MY x'})" "error(1)" "error()" "return {pcall(error,{err='a'})}" "return {pcall(error,'a')}"
"local function f() error('deep') end f()" "local t=nil return t.x" "return 1+{}" "return {}..''" "return nil()" "return {1,{err='in'},{ok='st'}}"
"x y" "return (" "local = 1" "for" "return 'a" "return {KEYS,ARGV}" "return #ARGV" "return ARGV[1]" "return tostring(0.1)" "return tostring(1e15)"
"return {tonumber('0x10'),tonumber('10',2),tonumber(' 12 ')}" "return {string.find('hello','(l)(l)')}" "return {string.gsub('hello','l','L')}"
"return {string.gsub('hello','l',function(c) return c..c end)}" "return string.format('%5.2f %d %s %x',1.234,5,'a',255)" "return string.format('%d','x')"
"local t={3,1,2} table.sort(t) return t" "return table.concat({1,2,3},',')" "return {unpack({1,2,3})}" "return {coroutine.resume(coroutine.create(function() error('c') end))}"
"math.randomseed(42) return {math.random(100),math.random(1,6),tostring(math.random())}" "return math.random(0)" "return math.floor(-1.5)"
"return {xpcall(function() error('a') end,function(e) return e..'!' end)}" "local s=0 for k,v in pairs({1,2,3}) do s=s+v end return s" "return assert(nil,'boom')"
"return loadstring('return 1+1')()" "return {loadstring('x y')}" "return setmetatable({},{__index=function(t,k) return k..'!' end}).foo" "return 0/0" "return 1/0"
"local function r() return 1+r() end return r()" "return string.rep('ab',3)" "return ('x'):upper()" "return type(redis.call('time')[1])"
"for i=1,10000 do local t={i} end return 'done'" "return 9223372036854775807" "return select('#',1,2,3)" "return string.rep('ab',100000):len()"
"return {string.find(string.rep('a',90),'a*a*a*b')}" "return {string.gsub(string.rep('ab',200),'(a*)(b-)b','%2%1')}" "return string.match(string.rep('a',300)..'=1','^(%a*)=(%d*)$')"
"##;

/// On one key.
pub(crate) const KEY: &str = r##"
"return redis.call('set',KEYS[1],ARGV[1])" "return redis.call('get',KEYS[1])" "return redis.pcall('incr',KEYS[1])" "return redis.call('incr',KEYS[1])"
"return redis.call('type',KEYS[1])" "return redis.call('type',KEYS[1]).ok" "return redis.call('del',KEYS[1])" "return redis.call('lpush',KEYS[1],ARGV[1],ARGV[2])"
"return redis.call('lrange',KEYS[1],0,-1)" "return redis.call('hset',KEYS[1],ARGV[1],ARGV[2])" "return redis.call('hmget',KEYS[1],ARGV[1],ARGV[2])"
"return redis.call('sadd',KEYS[1],ARGV[1])" "return redis.call('scard',KEYS[1])" "return redis.call('zadd',KEYS[1],1.5,ARGV[1])" "return redis.call('zadd',KEYS[1],ARGV[1],ARGV[2])"
"return redis.call('zrange',KEYS[1],0,-1,'withscores')" "return redis.call('zscore',KEYS[1],ARGV[1])" "redis.setresp(3) return redis.call('zscore',KEYS[1],ARGV[1])"
"redis.setresp(3) return redis.call('zrange',KEYS[1],0,-1,'withscores')" "redis.setresp(3) local h=redis.call('hgetall',KEYS[1]) return h.map[ARGV[1]] or 'none'"
"redis.setresp(3) return redis.call('get',KEYS[1])" "redis.setresp(3) return redis.call('sismember',KEYS[1],ARGV[1])" "return redis.call('xlen',KEYS[1])"
"return redis.call('xrange',KEYS[1],'-','+')" "return redis.call('xread','block',0,'streams',KEYS[1],'$')" "return redis.call('append',KEYS[1],ARGV[1])"
"return redis.call('incrbyfloat',KEYS[1],0.1)" "return redis.call('set',KEYS[1],1.5)" "return redis.call('set',KEYS[1],1e20)" "return redis.call('set',KEYS[1],ARGV[1],'nx','xx')"
"redis.call('set',KEYS[1],ARGV[1]) error('after')" "redis.call('set',KEYS[1],'n') return redis.call('incr',KEYS[1])" "local ok,e=pcall(redis.call,'incr',KEYS[1]) return {ok,type(e)}"
"local v=redis.call('get',KEYS[1]) if not v then return 'none' end return #v" "return {redis.call('exists',KEYS[1]),redis.call('strlen',KEYS[1])}"
"local n=0 for i=1,5 do n=redis.call('rpush',KEYS[1],i) end return n" "return redis.call('sort',KEYS[1],'alpha')" "return redis.call('getrange',KEYS[1],0,-1)"
"return redis.call('setex',KEYS[1],1000,ARGV[1])" "return redis.call('persist',KEYS[1])" "return redis.call('pfadd',KEYS[1],ARGV[1])" "return redis.call('pfcount',KEYS[1])"
"##;

/// JSON.
pub(crate) const JSON: &str = r##"
"return cjson.encode(cjson.decode(ARGV[1]))" "local v=cjson.decode(ARGV[1]) return type(v)=='table' and 'table' or tostring(v)" "local ok,v=pcall(cjson.decode,ARGV[1]) return {ok,type(v)}" "return cjson.decode(ARGV[1])"
"return cjson.encode(ARGV[1])" "return cjson.encode({1,2,nil,4})" "return cjson.encode({[100]=1})" "return cjson.encode(1/0)" "return cjson.encode({[true]=1})" "return cjson.encode()"
"return cjson.encode(function() end)" "return cjson.encode({a={b={}}})" "return cjson.encode(123456789.123456789)" "return {cjson.encode_sparse_array()}" "return cjson.encode_max_depth(0)"
"local c=cjson.new() c.encode_max_depth(1) return c.encode({{}})" "local c=cjson.new() c.decode_max_depth(1) return c.decode(ARGV[1])" "local c=cjson.new() c.encode_invalid_numbers('null') return c.encode({0/0})"
"local c=cjson.new() c.decode_invalid_numbers(false) return c.decode(ARGV[1])" "local c=cjson.new() c.encode_number_precision(3) return c.encode(3.14159)" "return cjson._VERSION"
"##;

/// Texts for JSON.
pub(crate) const JSON_TEXTS: &str = r##"
"[1,2,3]" "[1.5,-2e3,\"a\\u00e9\\n\",null,true,false,{}]" "{\"a\":[1,{\"b\":null}]}" "[1," "" "nul" "{1}" "{\"a\" 1}" "{\"a\":1 2}" "[1 2]" "[1] x" "\"\\ud83d\\ude00\"" "\"\\ud83d\""
"\"\\x\"" "\"abc" "0x10" "-inf" "[nan]" "[01]" "[-]" "[+1]" "12" "true" "[[[[1]]]]" "\x00\x00" "{\"a\":1,\"a\":2}" "[1e400]" "\"a\/b\""
"##;

/// cmsgpack, struct, bit.
pub(crate) const BYTES: &str = r##"
"return cmsgpack.pack(ARGV[1],tonumber(ARGV[2]),tonumber(ARGV[3]))" "return {cmsgpack.unpack(cmsgpack.pack(ARGV[1],tonumber(ARGV[3])))}" "return cmsgpack.unpack(ARGV[1])"
"return cmsgpack.pack()" "return cmsgpack.pack({1,2,{a=1}},nil,true)" "return cmsgpack.pack(127,128,-32,-33,65536,4294967296,-2147483649,1.5,0.1)" "return {cmsgpack.unpack_one(ARGV[1])}"
"return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),2)}" "return {cmsgpack.unpack_limit(ARGV[1],tonumber(ARGV[3]))}" "return struct.pack('>I2h<i4Bbxs',1,2,3,4,-5,ARGV[1])"
"return struct.pack('d',tonumber(ARGV[2]) or 0)" "return struct.pack('i4',ARGV[3])" "return {struct.unpack('>I2',ARGV[1])}" "return {struct.unpack('s',ARGV[1])}" "return {struct.unpack('Bc0',ARGV[1])}"
"return struct.pack('!8Bd',1,2.5)" "return struct.pack('Z',1)" "return struct.pack('i33',1)" "return struct.size('!i4Bd')" "return struct.size('s')" "return {struct.unpack('i4','abcd',tonumber(ARGV[3]))}"
"return bit.tohex(tonumber(ARGV[3]))" "return {bit.band(tonumber(ARGV[3]),255),bit.bor(1,2),bit.bxor(12,10),bit.bnot(tonumber(ARGV[3]))}" "return bit.lshift(1,tonumber(ARGV[3]))" "return bit.band()"
"return {bit.rol(0x12345678,12),bit.ror(0x12345678,12),bit.arshift(-16,2),bit.bswap(0x12345678),bit.tobit(2^40+1)}"
"##;

/// What the sandbox rejects.
pub(crate) const PROBES: &str = r##"
"return foo" "foo=1" "_G.foo=1" "rawset(_G,'foo',1)" "table.insert(_G,1)" "setmetatable(_G,{})" "setmetatable(redis,{})" "redis.call=nil" "redis.foo=1" "string.format=nil"
"getmetatable('').__index=nil" "getmetatable('').__index.foo=1" "return redis.nofield" "return _G.nofield" "return type(_G)" "return getfenv" "return setfenv" "return newproxy" "return io" "return require"
"return dofile" "return loadfile" "return print" "return package" "return debug" "local t={} for k in pairs(cjson) do t[#t+1]=k end table.sort(t) return t"
"local t={} for k in pairs(string) do if k ~= 'dump' then t[#t+1]=k end end table.sort(t) return t" "return loadstring('foo=1')()" "return loadstring('return foo')()" "KEYS={1}" "return rawget(_G,'nope')" "return next({})"
"##;

/// First lines.
pub(crate) const SHEBANGS: &str = r##"
"#!lua\nreturn redis.call('set',KEYS[1],ARGV[1])" "#!lua\nreturn 1" "#!lua flags=no-writes\nreturn redis.call('get',KEYS[1])" "#!lua flags=no-writes\nreturn redis.call('set',KEYS[1],ARGV[1])"
"#!lua flags=allow-oom,allow-stale,allow-cross-slot-keys\nreturn ARGV[1]" "#!lua flags=foo\nreturn 1" "#!lua x=y\nreturn 1" "#!lux\nreturn 1" "#!lua" "#!lua flags=\nreturn 1"
"#!lua flags=no-writes\nreturn redis.pcall('publish','c','m')" "#!lua\nerror('x')"
"##;

/// Libraries.
pub(crate) const LIBRARIES: &str = r##"
"#!lua name=l\nredis.register_function('f',function(keys,args) return {keys,args} end)" "#!lua name=l\nredis.register_function('f',function(keys,args) return redis.call('set',keys[1],args[1]) end)"
"#!lua name=l\nredis.register_function{function_name='f',description='d',callback=function(keys,args) return redis.call('get',keys[1]) end,flags={'no-writes'}}"
"#!lua name=l\nredis.register_function{function_name='f',callback=function(keys,args) return redis.call('set',keys[1],args[1]) end,flags={'no-writes','allow-oom'}}"
"#!lua name=l\nredis.register_function('f',function(keys,args) error('x') end)" "#!lua name=l\nredis.register_function('f',function(keys,args) return redis.call('nosuch') end)"
"#!lua name=l\nredis.register_function('f',function(keys,args) return KEYS end)" "#!lua name=l\nredis.register_function('f',function(keys,args) foo=1 end)"
"#!lua name=l\nlocal n=0 redis.register_function('f',function(keys,args) return n+1 end)" "#!lua name=l\nredis.register_function('f',function(keys,args) return redis.register_function end)"
"##;

/// A library whose function only reads.
pub(crate) const READING_LIBRARY: &str = r##"
"#!lua name=l\nredis.register_function{function_name='f',callback=function(keys,args) return redis.call('exists',keys[1]) end,flags={'no-writes'}}"
"##;

/// What is no library.
pub(crate) const BAD_LIBRARIES: &str = r##"
"x" "#!lua" "#!lua\n" "#!lua name=a name=b\n" "#!lua foo=a\n" "#!lux name=a\n" "#!lua name=a-b\n" "#!lua name=a\nx y" "#!lua name=a\nreturn 1" "#!lua name=a\nfoo=1" "#!lua name=a\nreturn foo"
"#!lua name=a\nredis.call('get','x')" "#!lua name=a\nredis.register_function()" "#!lua name=a\nredis.register_function('f')" "#!lua name=a\nredis.register_function({})" "#!lua name=a\nredis.register_function('f',1)"
"#!lua name=a\nredis.register_function({function_name='f'})" "#!lua name=a\nredis.register_function({foo=1})" "#!lua name=a\nredis.register_function({function_name='f',callback=function() end,flags={'x'}})"
"#!lua name=a\nredis.register_function('a-b',function() end)" "#!lua name=a\nredis.register_function('f',function() end) redis.register_function('f',function() end)"
"##;

/// A dump of one library.
pub(crate) const DUMP: &str = r##"
"\xf5@m#!lua name=restored\x0aredis.register_function('restored', function(keys) return redis.call('GET', keys[1]) end)\x0a\x00\x9b-\xe3\x04`\xcd\xe2T"
"##;
