#!/bin/sh
# A Python program of the site, as user pkb and with the settings that the units have:
#   deploy/as-site.sh manage.py createsuperuser
#   deploy/as-site.sh deploy/database_copy.py backup /var/backups/pkb
# Settings come from /etc/pkb/site.env. Variables that are already set go before them, as in PKB_LOG_FORMAT=json deploy/as-site.sh ...
set -eu
settings=${PKB_SITE_ENV:-/etc/pkb/site.env}
user=${PKB_SITE_USER:-pkb}
if [ $# -eq 0 ]; then
	echo "as-site.sh: say which program, such as: deploy/as-site.sh manage.py createsuperuser" >&2
	exit 2
fi
if [ ! -r "$settings" ]; then
	echo "as-site.sh: $settings is missing or not readable for $(id -un); run this as root" >&2
	exit 1
fi
# Not read as a shell script: values may hold spaces, as systemd permits.
while IFS= read -r line || [ -n "$line" ]; do
	name=${line%%=*}
	case $line in [A-Z]*=*) ;; *) continue ;; esac
	case $name in *[!A-Z0-9_]*) continue ;; esac
	if eval "[ -n \"\${$name+set}\" ]"; then continue; fi
	value=${line#*=}
	case $value in
	\"*\") value=${value#\"} value=${value%\"} ;;
	\'*\') value=${value#\'} value=${value%\'} ;;
	esac
	export "$name=$value"
done <"$settings"
export PKB_DATA_DIR="${PKB_DATA_DIR:-/var/lib/pkb}"
cd "$(dirname "$0")/.."
if [ "$(id -u)" -eq 0 ]; then
	exec setpriv --reuid="$user" --regid="$user" --init-groups .venv/bin/python "$@"
fi
exec .venv/bin/python "$@"
