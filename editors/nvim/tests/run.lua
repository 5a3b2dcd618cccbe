-- Runs the tests in real child Neovims: nvim --clean -l editors/nvim/tests/run.lua [PATTERN…]
--
-- Environment: ABREAST_BIN (default: the build in the repository), ABREAST_TEST_SCALE (rounds of
-- stress and time of typing, default 1; 10 is the full measure), ABREAST_TEST_SEED,
-- ABREAST_OLD_NVIM (a Neovim below 0.10, for its refusal).

local here = debug.getinfo(1, 'S').source:sub(2):match('^(.*)/') or '.'
here = vim.uv.fs_realpath(here)
package.path = here .. '/?.lua;' .. package.path

local T = require('support.harness')
local files = vim.fn.glob(here .. '/*_test.lua', true, true)
table.sort(files)
for _, file in ipairs(files) do
  T.file(vim.fs.basename(file):gsub('_test%.lua$', ''))
  dofile(file)
end
os.exit(T.run(_G.arg) and 0 or 1)
