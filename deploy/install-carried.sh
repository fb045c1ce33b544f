#!/bin/sh
# Put in place, on a GPU machine without a network, what deploy/carry-wheels.sh collected.
#   . deploy/install-carried.sh FOLDER [PREFIX]
# Wheels go into the interpreter's own environment, where the judge's ranks look (their environment is cleared);
# nothing that is there already is replaced. bubblewrap is unpacked to PREFIX and put on PATH, libseccomp on
# LD_LIBRARY_PATH.
folder=${1:?usage: . deploy/install-carried.sh FOLDER [PREFIX]}
prefix=${2:-/opt/pkb}
mkdir -p "$prefix/debs" "$prefix/bin"
python3 -m pip install -q --no-index --no-deps --no-cache-dir "$folder"/wheels/*.whl || return 1 2>/dev/null || exit 1
for deb in "$folder"/debs/*.deb; do dpkg -x "$deb" "$prefix/debs"; done
if ! command -v bwrap >/dev/null; then
	if "$prefix/debs/usr/bin/bwrap" --version >/dev/null 2>&1; then
		ln -sf "$prefix/debs/usr/bin/bwrap" "$prefix/bin/bwrap"
	else
		printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' \
			"$prefix/debs/usr/lib/$(uname -m)-linux-gnu:$prefix/debs/lib/$(uname -m)-linux-gnu" \
			"$prefix/debs/usr/bin/bwrap" >"$prefix/bin/bwrap"
		chmod 755 "$prefix/bin/bwrap"
	fi
fi
export PATH="$prefix/bin:$PATH"
has_seccomp() { python3 -c 'import ctypes; ctypes.CDLL("libseccomp.so.2")'; }
if ! has_seccomp 2>/dev/null; then
    # Alone in its folder: other unpacked libraries would stand before the machine's own.
    mkdir -p "$prefix/lib"
    cp -P "$prefix/debs/usr/lib/$(uname -m)-linux-gnu"/libseccomp.so.2* "$prefix/lib/"
    export LD_LIBRARY_PATH="$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
bwrap --version
has_seccomp || return 1 2>/dev/null || exit 1
