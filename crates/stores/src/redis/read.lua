-- A record and the time of the server.
return {redis.call('GET', KEYS[1]), redis.call('TIME')}
