#!/bin/sh
# Lets compose read every variant with the values of env.example: `docker compose`, or Debian's docker-compose.
set -eu
cd "$(dirname "$0")"
if docker compose version >/dev/null 2>&1; then
	compose="docker compose"
elif command -v docker-compose >/dev/null 2>&1; then
	compose=docker-compose
else
	echo "neither docker compose nor docker-compose is installed; on Debian: apt-get install docker-compose" >&2
	exit 1
fi
export PKB_BROKER_PUBLIC_URL=rediss://broker.example.org:6380/0
for variant in "" "-f compose.remote-nodes.yaml" "-f compose.monitoring.yaml"; do
	# shellcheck disable=SC2086  # words, not names with spaces
	$compose --env-file env.example -f compose.yaml $variant --profile node --profile operator config -q
done
