//! The settings files that the CLIs need in a run pod: `docs/contract/vendor-clis.md` section 2. What is in them is the
//! vendors' library's business; what a bundle of hooks has brought stays.

use std::{
    fs::File,
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use serde_json::Value;
use signalbox_types::{McpServer, PermissionMode, names};
use signalbox_vendors::{Vendor, claude, codex, gemini};

use crate::beneath::Folder;

/// The largest settings file that is read.
const MAX_SETTINGS: u64 = 4 << 20;

/// What settings depend on beside the vendor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// The recipe's MCP servers.
    pub(crate) mcp_servers: Vec<McpServer>,
    /// How freely the agent may use its tools.
    pub(crate) permission_mode: PermissionMode,
    /// `OPENAI_BASE_URL`
    pub(crate) openai_base_url: Option<String>,
    /// `GOOGLE_GEMINI_BASE_URL`
    pub(crate) google_base_url: Option<String>,
}

/// Completes the settings of `vendor` below `agent_dir`.
///
/// # Errors
/// A file cannot be read or written, or is none that can be completed.
pub(crate) fn complete(vendor: Vendor, agent_dir: &Path, wanted: &Wanted) -> io::Result<()> {
    let home = Home(agent_dir);
    match vendor {
        Vendor::Claude => home.complete(claude::SETTINGS_PATH, |text| Ok(text.unwrap_or_else(|| "{}\n".to_owned()))),
        Vendor::Codex => home.complete(codex::CONFIG_PATH, |text| {
            let url = wanted.openai_base_url.as_deref();
            codex::complete_config(&text.unwrap_or_default(), url).map_err(io::Error::other)
        }),
        Vendor::Gemini => gemini(&home, wanted),
        Vendor::Opencode | Vendor::Exec => Ok(()),
    }
}

fn gemini(home: &Home<'_>, wanted: &Wanted) -> io::Result<()> {
    home.complete(gemini::SETTINGS_PATH, |text| {
        let existing = text.map_or(Ok(Value::Null), |text| serde_json::from_str(&text)).unwrap_or_else(|error| {
            tracing::warn!("{} is no JSON and is replaced: {error}", gemini::SETTINGS_PATH);
            Value::Null
        });
        let url = wanted.google_base_url.as_deref();
        Ok(format!("{:#}\n", gemini::complete_settings(existing, &wanted.mcp_servers, url)))
    })?;
    home.complete(gemini::EXPERIMENTS_PATH, |_| Ok(gemini::EXPERIMENTS.to_owned()))?;
    match wanted.permission_mode {
        PermissionMode::Bypass => home.complete(gemini::BYPASS_POLICY_PATH, |_| Ok(gemini::BYPASS_POLICY.to_owned())),
        PermissionMode::Auto => home.remove(gemini::BYPASS_POLICY_PATH),
    }
}

/// The agent's home, wherever it is mounted.
struct Home<'a>(&'a Path);

impl Home<'_> {
    /// Writes a file anew from what it was. A link is replaced, not followed.
    fn complete(&self, path: &str, text: impl FnOnce(Option<String>) -> io::Result<String>) -> io::Result<()> {
        let at = |error: io::Error| io::Error::new(error.kind(), format!("{path}: {error}"));
        let (folder, name) = split(path)?;
        let folder = Folder::open(self.0).and_then(|home| home.make(folder)).map_err(at)?;
        let (existing, mode) = match folder.read(name.as_ref()) {
            Ok(file) => read(file).map(|(text, mode)| (Some(text), mode)).map_err(at)?,
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    tracing::warn!("{path} is replaced: {error}");
                }
                (None, 0o644)
            }
        };
        let text = text(existing).map_err(at)?;
        folder.create(name.as_ref(), mode).and_then(|mut file| file.write_all(text.as_bytes())).map_err(at)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let (folder, name) = split(path)?;
        match Folder::open(self.0)?.find(folder) {
            Ok(folder) => folder.remove(name.as_ref()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(io::Error::new(error.kind(), format!("{path}: {error}"))),
        }
    }
}

/// The folder and the name of a file of the home, below it.
fn split(path: &str) -> io::Result<(&Path, &str)> {
    let below = Path::new(path).strip_prefix(names::AGENT_HOME).map_err(io::Error::other)?;
    let name = below.file_name().and_then(|name| name.to_str()).ok_or(ErrorKind::InvalidFilename)?;
    Ok((below.parent().unwrap_or(Path::new("")), name))
}

/// The text of a file, and its mode: it may be closed to others because of a key.
fn read(file: File) -> io::Result<(String, u32)> {
    let mode = file.metadata()?.permissions().mode() & 0o777;
    let mut text = String::new();
    file.take(MAX_SETTINGS).read_to_string(&mut text)?;
    Ok((text, mode))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use serde_json::json;

    use super::*;

    fn home() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn file(home: &tempfile::TempDir, path: &str) -> std::path::PathBuf {
        home.path().join(path.strip_prefix("/agent/").unwrap())
    }

    fn put(home: &tempfile::TempDir, path: &str, text: &str) {
        let file = file(home, path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn json_of(home: &tempfile::TempDir, path: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(file(home, path)).unwrap()).unwrap()
    }

    #[test]
    fn claude_always_finds_settings_and_those_that_are_there_stay() {
        let home = home();
        complete(Vendor::Claude, home.path(), &Wanted::default()).unwrap();
        assert_eq!(json_of(&home, claude::SETTINGS_PATH), json!({}));
        put(&home, claude::SETTINGS_PATH, r#"{"a":1}"#);
        complete(Vendor::Claude, home.path(), &Wanted::default()).unwrap();
        assert_eq!(fs::read_to_string(file(&home, claude::SETTINGS_PATH)).unwrap(), r#"{"a":1}"#);
    }

    #[test]
    fn codex_makes_no_calls_home_and_finds_the_recipe_s_address() {
        let home = home();
        put(&home, codex::CONFIG_PATH, "# mine\n[analytics]\nenabled = true\n");
        let wanted = Wanted { openai_base_url: Some("http://h/v1".into()), ..Wanted::default() };
        complete(Vendor::Codex, home.path(), &wanted).unwrap();
        let text = fs::read_to_string(file(&home, codex::CONFIG_PATH)).unwrap();
        for part in ["# mine", "enabled = true", "plugins = false", "openai_base_url = \"http://h/v1\""] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn settings_of_codex_that_are_no_toml_fail_without_being_told() {
        let home = home();
        put(&home, codex::CONFIG_PATH, "key = s3cret =");
        let error = complete(Vendor::Codex, home.path(), &Wanted::default()).unwrap_err().to_string();
        assert!(error.contains("config.toml") && !error.contains("s3cret"), "{error}");
    }

    #[test]
    fn fix_0_11_2_mcp_servers_reach_gemini_beside_those_of_the_hooks() {
        let home = home();
        put(&home, gemini::SETTINGS_PATH, r#"{"mcpServers":{"own":{"command":"x"}},"theme":"dark"}"#);
        let server = McpServer { name: "tools".into(), command: "t".into(), ..McpServer::default() };
        let wanted = Wanted { mcp_servers: vec![server], ..Wanted::default() };
        complete(Vendor::Gemini, home.path(), &wanted).unwrap();
        let settings = json_of(&home, gemini::SETTINGS_PATH);
        assert_eq!(settings["mcpServers"], json!({"own": {"command": "x"}, "tools": {"command": "t"}}));
        assert_eq!(settings["theme"], "dark");
        assert!(json_of(&home, gemini::EXPERIMENTS_PATH).is_object());
    }

    #[test]
    fn the_policy_of_gemini_is_there_under_bypass_alone() {
        let home = home();
        let bypass = Wanted { permission_mode: PermissionMode::Bypass, ..Wanted::default() };
        complete(Vendor::Gemini, home.path(), &bypass).unwrap();
        assert_eq!(fs::read_to_string(file(&home, gemini::BYPASS_POLICY_PATH)).unwrap(), gemini::BYPASS_POLICY);
        complete(Vendor::Gemini, home.path(), &Wanted::default()).unwrap();
        assert!(!file(&home, gemini::BYPASS_POLICY_PATH).exists());
        complete(Vendor::Gemini, tempfile::tempdir().unwrap().path(), &Wanted::default()).unwrap();
    }

    #[test]
    fn a_link_at_a_settings_file_s_place_is_replaced() {
        let home = home();
        let victim = home.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        fs::create_dir(home.path().join(".claude")).unwrap();
        symlink(&victim, file(&home, claude::SETTINGS_PATH)).unwrap();
        complete(Vendor::Claude, home.path(), &Wanted::default()).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
        let written = fs::symlink_metadata(file(&home, claude::SETTINGS_PATH)).unwrap();
        assert!(written.is_file() && written.permissions().mode() & 0o777 == 0o644);
    }
}
