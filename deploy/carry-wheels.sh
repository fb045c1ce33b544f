#!/bin/sh
# Collect, here, what a GPU machine without a network needs: wheels for its Python, libseccomp, and bubblewrap with its
# libraries.
#   deploy/carry-wheels.sh FOLDER [PYTHON_VERSION [MACHINE]]
# MACHINE is what `uname -m` says there, such as x86_64 or aarch64; the Debian packages are those of this machine.
# There: deploy/install-carried.sh FOLDER
set -eu
folder=${1:?usage: deploy/carry-wheels.sh FOLDER [PYTHON_VERSION [MACHINE]]}
version=${2:-3.12}
machine=${3:-$(uname -m)}
here=$(cd "$(dirname "$0")/.." && pwd)
python=$here/.venv/bin/python
[ -x "$python" ] || python=python3
mkdir -p "$folder/wheels" "$folder/debs"
"$python" -m pip download --quiet --only-binary=:all: --implementation cp --python-version "$version" \
	--platform "manylinux_2_28_$machine" --platform "manylinux_2_27_$machine" --platform "manylinux_2_17_$machine" \
	--platform "manylinux2014_$machine" --platform any \
	--dest "$folder/wheels" --requirement "$here/requirements-node.txt"
cd "$folder/debs"
for package in bubblewrap libseccomp2 libcap2 libselinux1 libpcre2-8-0; do
	apt-get download -qq "$package" 2>/dev/null
	mv "$package"_*.deb "$package.deb"
done
cd - >/dev/null
ls -l "$folder/wheels" "$folder/debs"
