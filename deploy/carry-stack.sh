#!/bin/sh
# Collect, here, what deploy/try_full_stack.py needs on a machine without a network: the site's Python packages for that
# machine's Python, and the PostgreSQL and Redis that are installed here with the libraries they use.
#   deploy/carry-stack.sh FOLDER [PYTHON_VERSION]
# There (same processor, glibc no older than here): python3 deploy/try_full_stack.py --carried FOLDER ...
set -eu
folder=${1:?usage: deploy/carry-stack.sh FOLDER [PYTHON_VERSION]}
version=${2:-3.12}
machine=$(uname -m)
here=$(cd "$(dirname "$0")/.." && pwd)
python=$here/.venv/bin/python
[ -x "$python" ] || python=python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder" "$work/servers/bin" "$work/servers/lib"

cp "$here/requirements.txt" "$here/requirements-site.txt" "$work"
"$python" -m pip install --quiet --no-compile --only-binary=:all: --implementation cp --python-version "$version" \
	--platform "manylinux_2_28_$machine" --platform "manylinux_2_27_$machine" --platform "manylinux_2_17_$machine" \
	--platform "manylinux2014_$machine" --platform any \
	--target "$work/site" --requirement "$work/requirements-site.txt"
# The site speaks English.
find "$work/site/django" "$work/site/rest_framework" -path '*/locale/*' -name '*.[mp]o' -delete

for initdb in /usr/lib/postgresql/*/bin/initdb "$(command -v initdb)"; do [ ! -x "$initdb" ] || break; done
[ -x "$initdb" ] || { echo "PostgreSQL is not installed here; on Debian: apt-get install postgresql" >&2; exit 1; }
programs=$(dirname "$(readlink -f "$initdb")")
modules=$("$programs/pg_config" --pkglibdir)
redis=$(readlink -f "$(command -v redis-server)")
# Where PostgreSQL's folders lie to each other stays as it is: that is how it finds them.
for part in "$programs/initdb" "$programs/postgres" "$modules" "$("$programs/pg_config" --sharedir)"; do
	mkdir -p "$work/servers$(dirname "$part")"
	cp -rL "$part" "$work/servers$part"
done
find "$work/servers$modules" -name bitcode -prune -exec rm -r {} +
find "$work/servers$modules" -name 'llvmjit*' -delete
cp "$redis" "$work/servers/bin/redis-server.real"
ldd "$programs/initdb" "$programs/postgres" "$redis" "$modules/plpgsql.so" "$modules/dict_snowball.so" |
	awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
	grep -Ev '/lib(c|m|dl|rt|pthread|resolv)\.so' | xargs -I LIB cp -L LIB "$work/servers/lib/"
# PostgreSQL on Debian reads the system's time zones, which a small machine may lack.
cp -L /usr/share/zoneinfo/UTC "$work/servers/UTC"
for name in initdb postgres redis-server; do
	real=\$here$programs/$name
	[ "$name" = redis-server ] && real=\$here/bin/redis-server.real
	# shellcheck disable=SC2016  # for the wrapper's own shell
	printf '#!/bin/sh\nhere=$(dirname "$(dirname "$(readlink -f "$0")")")\nLD_LIBRARY_PATH=$here/lib exec "%s" "$@"\n' \
		"$real" >"$work/servers/bin/$name"
	chmod 755 "$work/servers/bin/$name"
done
for part in site servers; do tar -C "$work/$part" -cf - . | xz -6 -T2 >"$folder/$part.tar.xz"; done
ls -l "$folder"
