#!/bin/sh
# Collect, here, what a GPU machine without a network needs: wheels for its Python, libseccomp, and bubblewrap with its
# libraries.
#   deploy/carry-wheels.sh FOLDER [PYTHON_VERSION]
# There: deploy/install-carried.sh FOLDER
set -eu
folder=${1:?usage: deploy/carry-wheels.sh FOLDER [PYTHON_VERSION]}
version=${2:-3.12}
here=$(cd "$(dirname "$0")/.." && pwd)
python=$here/.venv/bin/python
[ -x "$python" ] || python=python3
mkdir -p "$folder/wheels" "$folder/debs"
"$python" -m pip download --quiet --only-binary=:all: --implementation cp --python-version "$version" \
	--platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 \
	--platform manylinux2014_x86_64 --platform any \
	--dest "$folder/wheels" --requirement "$here/requirements-node.txt"
cd "$folder/debs"
for package in bubblewrap libseccomp2 libcap2 libselinux1 libpcre2-8-0; do
	apt-get download -qq "$package" 2>/dev/null
	mv "$package"_*.deb "$package.deb"
done
cd - >/dev/null
ls -l "$folder/wheels" "$folder/debs"
