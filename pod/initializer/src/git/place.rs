//! Where a repository comes from and where it goes. The values are a recipe's, so they are data: nothing outside the
//! workspace is touched, and nothing is taken for an option.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use signalbox_types::Repo;

use crate::paths;

/// The address to clone from: as given where it holds `://` or `@`, without what may be secret in it; else
/// `owner/name` at `github`.
pub(crate) fn url(value: &str, github: &str) -> String {
    if value.contains("://") {
        without_secrets(value)
    } else if value.contains('@') {
        value.to_owned()
    } else {
        format!("{github}/{value}.git")
    }
}

/// Drops the user of an http address, up to the last `@` of its authority, and the password of an ssh one.
fn without_secrets(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let Some((user, host)) = authority.rsplit_once('@') else { return url.to_owned() };
    match (scheme.to_ascii_lowercase().as_str(), user.split_once(':')) {
        ("http" | "https", _) => format!("{scheme}://{host}{path}"),
        ("ssh" | "git+ssh" | "ssh+git", Some((user, _))) => format!("{scheme}://{user}@{host}{path}"),
        _ => url.to_owned(),
    }
}

/// Where `repo` goes: its path (absolute, or below the workspace), else its name below the workspace. None unless that
/// is strictly below it, as written and on the disk.
pub(crate) fn destination(repo: &Repo, workspace: &Path) -> Option<PathBuf> {
    let wanted = if repo.path.is_empty() { &repo.name } else { &repo.path };
    paths::below(workspace, Path::new(wanted))
}

/// Removes what is at `destination`, a link as a link, and makes the folders above it.
pub(crate) fn clear(destination: &Path) -> io::Result<()> {
    match fs::symlink_metadata(destination) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(destination)?,
        Ok(_) => fs::remove_file(destination)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    destination.parent().map_or(Ok(()), fs::create_dir_all)
}

/// The `owner/name` of an address that is a repository at `github` and nothing more.
pub(crate) fn name_at(github: &str, url: &str) -> Option<String> {
    let name = url.strip_prefix(github)?.strip_prefix('/')?;
    let name = name.strip_suffix(".git").unwrap_or(name);
    let is_plain = |part: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        !part.is_empty() && !matches!(part, "." | "..") && part.bytes().all(known)
    };
    let (owner, repo) = name.split_once('/')?;
    (is_plain(owner) && is_plain(repo)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rstest::rstest;

    use super::*;

    const GITHUB: &str = "https://github.com";

    #[rstest]
    #[case("owner/name", "https://github.com/owner/name.git")]
    #[case("https://host/r.git", "https://host/r.git")]
    #[case("https://user:pass@host:8/r@v.git?a=b@c", "https://host:8/r@v.git?a=b@c")]
    #[case("HTTP://token@host", "HTTP://host")]
    #[case("ssh://git:pass@host/r", "ssh://git@host/r")]
    #[case("ssh://git@host/r", "ssh://git@host/r")]
    #[case("git@host:owner/name", "git@host:owner/name")]
    #[case("file:///tmp/r", "file:///tmp/r")]
    fn case_80_an_address_is_used_without_its_secrets(#[case] value: &str, #[case] expected: &str) {
        assert_eq!(url(value, GITHUB), expected);
    }

    #[test]
    fn fix_117_the_user_is_dropped_up_to_the_last_at_sign_of_the_authority() {
        assert_eq!(url("https://user:p@ss@host/a@b", GITHUB), "https://host/a@b");
        assert_eq!(url("https://user:p@ss@host?x@y", GITHUB), "https://host?x@y");
    }

    #[test]
    fn fix_99_an_address_that_looks_like_an_option_is_data() {
        assert_eq!(url("--upload-pack=x", GITHUB), "https://github.com/--upload-pack=x.git");
    }

    #[rstest]
    #[case("https://github.com/o/r.git", Some("o/r"))]
    #[case("https://github.com/o/r", Some("o/r"))]
    #[case("https://github.com/o/r/tree/main", None)]
    #[case("https://github.com/o", None)]
    #[case("https://github.com/o/..", None)]
    #[case("https://github.com/o/r?x", None)]
    #[case("https://github.com.evil/o/r", None)]
    #[case("http://github.com/o/r", None)]
    #[case("https://gitlab.example/o/r.git", None)]
    fn a_plain_repository_at_github_is_known_by_owner_and_name(#[case] url: &str, #[case] name: Option<&str>) {
        assert_eq!(name_at(GITHUB, url).as_deref(), name);
    }

    #[rstest]
    #[case::name("name", "", Some("name"))]
    #[case::nested_name("a/b", "", Some("a/b"))]
    #[case::path("name", "src/./app/../lib", Some("src/lib"))]
    #[case::up_and_back("name", "../ws/x", Some("x"))]
    #[case::outside("name", "..", None)]
    #[case::deep_outside("name", "a/../../x", None)]
    #[case::a_neighbour_with_the_same_start("name", "../ws-other", None)]
    #[case::absolute("name", "/usr", None)]
    #[case::the_workspace_itself("name", ".", None)]
    #[case::nothing("", "", None)]
    #[case::a_nul("a\0b", "", None)]
    fn case_79_a_destination_is_strictly_below_the_workspace(
        #[case] name: &str,
        #[case] path: &str,
        #[case] expected: Option<&str>,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("ws");
        fs::create_dir(&workspace).unwrap();
        let repo = Repo { name: name.into(), path: path.into(), ..Repo::default() };
        assert_eq!(destination(&repo, &workspace), expected.map(|below| workspace.join(below)));
        assert_eq!(destination(&repo, &workspace.join(".")), expected.map(|below| workspace.join(below)));
    }

    #[rstest]
    #[case("/")]
    #[case("workspace")]
    #[case("")]
    #[case("/..")]
    fn case_79_a_workspace_that_is_the_root_or_relative_takes_no_repository(#[case] workspace: &str) {
        let repo = Repo { name: "name".into(), ..Repo::default() };
        assert_eq!(destination(&repo, Path::new(workspace)), None);
    }

    #[test]
    fn an_absolute_path_below_the_workspace_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("a/b");
        let repo = Repo { path: inside.to_str().unwrap().into(), ..Repo::default() };
        assert_eq!(destination(&repo, folder.path()), Some(inside));
    }

    #[test]
    fn fix_100_a_link_that_an_earlier_clone_brought_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (workspace, outside) = (folder.path().join("ws"), folder.path().join("out"));
        fs::create_dir_all(workspace.join("first")).unwrap();
        fs::create_dir(&outside).unwrap();
        symlink(&outside, workspace.join("first/link")).unwrap();
        symlink(folder.path().join("absent"), workspace.join("first/dangling")).unwrap();
        let at = |path: &str| destination(&Repo { path: path.into(), ..Repo::default() }, &workspace);
        assert_eq!(at("first/link/x"), None);
        assert_eq!(at("first/dangling/x"), None);
        // The link itself may go: it is in the workspace, and is removed as a link.
        let link = at("first/link").unwrap();
        clear(&link).unwrap();
        assert!(!link.exists() && outside.exists());
    }

    #[test]
    fn what_was_there_is_removed_whatever_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let destination = folder.path().join("a/b");
        clear(&destination).unwrap();
        fs::create_dir_all(destination.join("old")).unwrap();
        clear(&destination).unwrap();
        fs::write(&destination, "old").unwrap();
        clear(&destination).unwrap();
        assert!(!destination.exists() && folder.path().join("a").is_dir());
    }
}
