#!/bin/sh
# Starts Redis as the broker. Its messages are not kept on disk, because the queue is a table of the database and a lost
# message is sent again; its users are, in an ACL file that begins with an administrator alone. Arguments are added.
set -eu
umask 077
data=${REDIS_DATA:-/data}
if [ ! -s "$data/users.acl" ]; then
	digest=$(printf %s "${PKB_BROKER_ADMIN_PASSWORD:?is not set}" | sha256sum | cut -d ' ' -f 1)
	printf 'user default off\nuser admin on #%s ~* &* +@all\n' "$digest" >"$data/users.acl.new"
	mv "$data/users.acl.new" "$data/users.acl"
fi
exec redis-server --dir "$data" --aclfile "$data/users.acl" --save "" --appendonly no \
	--maxmemory 512mb --maxmemory-policy noeviction "$@"
